#include "ops_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/text.h"

namespace zeroulp::cli {

using ops::conformance::Outcome;
using report::Align;
using report::Tone;

report::Table conformance_table(const std::vector<Outcome>& outcomes) {
  report::Table table(
      {{"op"}, {"variant"}, {"result"}, {"cases", Align::kRight}, {"elements", Align::kRight}, {"differing", Align::kRight}});
  for (const Outcome& o : outcomes) {
    if (!o.skipped.empty()) {
      table.row({o.op, o.variant, report::Cell("skipped: " + o.skipped, Tone::kWarn), "", "", ""});
      continue;
    }
    if (o.variant == ops::conformance::kReference) {
      table.row({o.op, o.variant, "digest " + o.digest.substr(0, 12), report::count_text(o.cases),
                 report::count_text(o.elements), ""});
      continue;
    }
    const report::Cell result = o.differing == 0 ? report::Cell("equal", Tone::kGood) : report::Cell("DIFFERS", Tone::kBad);
    table.row({o.op, o.variant, result, report::count_text(o.cases), report::count_text(o.elements),
               report::count_text(o.differing)});
  }
  return table;
}

std::string first_differences(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& o : outcomes) {
    if (!o.first) continue;
    text +=
        fmt::format("{}, {}: {} elements differ in {} cases. First: {}[{}] of the case '{}' ({})\n  reference {}\n  {} {}\n",
                    o.op, o.variant, o.differing, o.cases_differing, o.first->array, o.first->index, o.first->in.name,
                    kind_name(o.first->in.kind), o.first->want, o.variant, o.first->got);
    text += fmt::format("  the case is there to catch: {}\n", o.first->in.catches);
  }
  return text;
}

report::Json conformance_json(const std::vector<Outcome>& outcomes) {
  report::Json all = report::Json::array();
  for (const Outcome& o : outcomes) {
    report::Json j = {{"op", o.op}, {"variant", o.variant}, {"status", o.skipped.empty() ? "run" : "skipped"}};
    if (!o.skipped.empty()) {
      j["reason"] = o.skipped;
    } else {
      j["cases"] = o.cases;
      j["elements"] = o.elements;
      j["differing"] = o.differing;
    }
    if (!o.digest.empty()) j["digest"] = o.digest;
    if (o.first)
      j["first_difference"] = {{"case", o.first->in.name},
                               {"kind", kind_name(o.first->in.kind)},
                               {"catches", o.first->in.catches},
                               {"array", o.first->array},
                               {"index", o.first->index},
                               {"want", o.first->want},
                               {"got", o.first->got}};
    all.push_back(std::move(j));
  }
  return all;
}

ConformanceVerdict conformance_verdict(const std::vector<Outcome>& outcomes, std::span<const std::string> only) {
  const ops::conformance::Verdict v = ops::conformance::verdict(outcomes, only);
  if (!v.equal) return {ExitCode::kAnswerIsNo, "some variant's bits differ from the reference's"};
  if (!v.ops_not_compared.empty())
    return {ExitCode::kUnavailable,
            fmt::format("nothing to compare the reference with for: {}", fmt::join(v.ops_not_compared, ", "))};
  return {ExitCode::kHolds, "every variant that can run here gives the reference's bits"};
}

}  // namespace zeroulp::cli
