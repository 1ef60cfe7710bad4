#include "verify/faults/study_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "report/text.h"

namespace zeroulp::verify {
namespace {

using report::Align;
using report::Cell;
using report::Table;
using report::Tone;

constexpr char kNoticed = static_cast<char>(Seen::kNoticed), kPassed = static_cast<char>(Seen::kPassed);

const Fault& fault_of(const FaultResult& r) {
  const Fault* f = find_fault(r.name);
  ZU_CHECK(f != nullptr);
  return *f;
}
char measured(const FaultResult& r, Gate gate) { return r.measured[static_cast<size_t>(gate)]; }

// "x", "." or "-", with a "!" where the prediction was another.
std::string letter(const Study& s, const FaultResult& r, size_t gate) {
  return std::string(1, r.measured[gate]) + (s.missed(r, gate) ? "!" : "");
}

int64_t count(const Study& s, Gate gate, char what) {
  return std::count_if(s.results.begin(), s.results.end(), [&](const FaultResult& r) { return measured(r, gate) == what; });
}

// Of the faults that change bits of the captured outputs.
struct Tally {
  int64_t change = 0, unnoticed = 0;
};
Tally tally(const Study& s, Gate gate) {
  Tally t;
  for (const FaultResult& r : s.results) {
    if (measured(r, Gate::kEqual) != kNoticed || measured(r, gate) == static_cast<char>(Seen::kNotAsked)) continue;
    ++t.change;
    t.unnoticed += measured(r, gate) == kPassed;
  }
  return t;
}

std::string counted(int64_t n, std::string_view noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); }
// The verb behind a number of things.
std::string_view verb(int64_t n, std::string_view one, std::string_view more) { return n == 1 ? one : more; }

std::string change_text(const Study& s, const FaultResult& r) {
  if (!r.refused.empty()) return "refused";
  if (r.prompts == 0) return "-";
  const double change = r.perplexity / s.perplexity - 1;
  return r.perplexity == s.perplexity ? std::string("0") : std::fabs(change) < 0.005 ? fmt::format("{:+.4f} %", 100 * change) : fmt::format("{:+.3g} %", 100 * change);
}

}  // namespace

Table fault_table() {
  Table t({{"fault"}, {"class"}, {"op"}, {"instead of the rule"}, {"seen in"}, {"predicted"}});
  for (const Fault& f : faults())
    t.row({std::string(f.name), std::string(class_name(f.fault_class)), std::string(f.op), std::string(f.place), std::string(f.seen), std::string(f.predicted)});
  return t;
}

Table equivalent_table() {
  Table t({{"name"}, {"op"}, {"other code"}, {"holds for"}, {"why no bit changes"}});
  for (const Equivalent& e : equivalents())
    t.row({std::string(e.name), std::string(e.op), std::string(e.mutant), e.condition.empty() ? std::string("all inputs") : std::string(e.condition), std::string(e.proof)});
  return t;
}

Table kill_table(const Study& s) {
  std::vector<Table::Column> columns = {{"fault"}, {"class"}};
  for (size_t g = 0; g < kGates; ++g) columns.push_back({std::string(gate_short(static_cast<Gate>(g)))});
  columns.push_back({"prompts parted", Align::kRight});
  columns.push_back({"perplexity", Align::kRight});
  Table t(columns);
  for (const FaultResult& r : s.results) {
    std::vector<Cell> row = {Cell(r.name), Cell(std::string(class_name(fault_of(r).fault_class)))};
    for (size_t g = 0; g < kGates; ++g)
      row.emplace_back(letter(s, r, g), r.measured[g] == kNoticed ? Tone::kGood : r.measured[g] == kPassed && measured(r, Gate::kEqual) == kNoticed ? Tone::kBad : Tone::kMuted);
    row.emplace_back(r.prompts == 0 ? std::string("-") : fmt::format("{} of {}", r.parted, r.prompts));
    row.emplace_back(change_text(s, r));
    t.row(std::move(row));
  }
  return t;
}

Table distance_table(const Study& s) {
  Table t({{"fault"}, {"elements that differ", Align::kRight}, {"1 spacing", Align::kRight}, {"2", Align::kRight}, {"3-4", Align::kRight}, {"5-16", Align::kRight},
           {"more", Align::kRight}, {"NaN", Align::kRight}, {"beyond torch", Align::kRight}, {"1 - cosine", Align::kRight}, {"largest / largest", Align::kRight}, {"class named", Align::kRight}});
  for (const FaultResult& r : s.results) {
    std::vector<Cell> row = {Cell(r.name), Cell(r.apart.differing == 0 ? std::string("0") : fmt::format("{:.2g}", static_cast<double>(r.apart.differing) / static_cast<double>(r.apart.elements)))};
    for (size_t i = 1; i < kApartNames.size(); ++i) row.emplace_back(report::count_text(r.apart.spacings[i]));
    row.emplace_back(report::count_text(r.apart.beyond_torch));
    row.emplace_back(report::significant(1 - r.apart.least_cosine, 2));
    row.emplace_back(report::significant(r.apart.largest_relative, 2));
    row.emplace_back(r.features.empty() ? std::string("-") : fmt::format("{} of {}", r.recognised(), r.features.size()));
    t.row(std::move(row));
  }
  return t;
}

std::vector<std::string> findings(const Study& s) {
  std::vector<std::string> out;
  const auto all = static_cast<int64_t>(s.results.size());
  out.push_back(fmt::format("Equality on the suite's inputs rejects {} of {}.", count(s, Gate::kSuite, kNoticed), counted(all, "fault")));
  const int64_t change = count(s, Gate::kEqual, kNoticed);
  out.push_back(fmt::format("{} of {} {} bits of outputs on the model's own inputs.", change, all, verb(change, "changes", "change")));
  for (const Gate gate : {Gate::kOneSpacing, Gate::kTorch, Gate::kVllmTriton, Gate::kVllmCutlass, Gate::kCosine, Gate::kMaxRelative, Gate::kTokens, Gate::kPerplexity}) {
    const Tally t = tally(s, gate);
    const bool one = t.unnoticed == 1 || t.change == 1;
    if (t.change > 0) out.push_back(fmt::format("{}: {} of {}{} {} unnoticed.", gate_name(gate), t.unnoticed, t.change == 1 ? "" : "these ", t.change, one ? "passes" : "pass"));
  }
  int64_t missed = 0, asked = 0;
  for (const FaultResult& r : s.results)
    for (size_t g = 0; g < kGates; ++g) missed += s.missed(r, g), asked += r.measured[g] != static_cast<char>(Seen::kNotAsked);
  out.push_back(fmt::format("Predictions: {} of {} came out otherwise.", missed, counted(asked, "letter")));
  int64_t judged = 0, recognised = 0;
  for (const FaultResult& r : s.results) judged += static_cast<int64_t>(r.features.size()), recognised += r.recognised();
  if (judged > 0) out.push_back(fmt::format("Signatures: the likeliest class is the fault's at {} of {} ({}).", recognised, counted(judged, "output"), report::percent_text(static_cast<double>(recognised), static_cast<double>(judged))));
  return out;
}

std::string headline(const Study& s) {
  if (s.results.empty()) return "No fault was run";
  const auto all = static_cast<int64_t>(s.results.size());
  const std::string whole = all == 1 ? "the fault" : fmt::format("all {} faults", all);
  if (!s.holds()) return fmt::format("Equality on the suite's inputs does not reject {}", whole);
  const Tally t = tally(s, Gate::kOneSpacing);
  if (t.change == 0) return fmt::format("Equality rejects {}; no output of this model changes", whole);
  if (t.change == 1) return fmt::format("Equality rejects {}; the one that changes outputs of this model {} within one bf16 spacing", whole, t.unnoticed == 1 ? "stays" : "does not stay");
  return fmt::format("Equality rejects {}; {} of the {} that change outputs of this model {} within one bf16 spacing", whole, t.unnoticed, t.change, verb(t.unnoticed, "stays", "stay"));
}

Table suite_table(const std::vector<SuiteGates>& gates) {
  std::vector<Table::Column> columns = {{"fault"}, {"class"}};
  for (const Gate gate : kOutputGates) columns.push_back({std::string(gate_short(gate))});
  Table t(columns);
  for (const SuiteGates& g : gates) {
    const Fault* f = find_fault(g.name);
    ZU_CHECK(f != nullptr);
    std::vector<Cell> row = {Cell(g.name), Cell(std::string(class_name(f->fault_class)))};
    for (const Gate gate : kOutputGates) row.emplace_back(std::string(1, static_cast<char>(g.seen(gate))));
    t.row(std::move(row));
  }
  return t;
}

std::vector<std::string> findings(const std::vector<SuiteGates>& gates) {
  std::vector<std::string> out;
  for (const Gate gate : kOutputGates) {
    const auto seen = [&](Seen what) { return std::count_if(gates.begin(), gates.end(), [&](const SuiteGates& g) { return g.seen(gate) == what; }); };
    out.push_back(fmt::format("{}: rejects {} of {}.", gate_name(gate), seen(Seen::kNoticed), counted(seen(Seen::kNoticed) + seen(Seen::kPassed), "fault")));
  }
  return out;
}

void to_json(const std::vector<SuiteGates>& gates, report::Json& body) {
  body["gates"] = report::Json::array();
  for (const Gate gate : kOutputGates) body["gates"].push_back(gate_name(gate));
  body["faults"] = report::Json::array();
  for (const SuiteGates& g : gates) {
    std::string letters;
    for (const Gate gate : kOutputGates) letters += static_cast<char>(g.seen(gate));
    body["faults"].push_back({{"fault", g.name}, {"measured", letters}, {"first", g.apart.first}});
  }
  body["findings"] = findings(gates);
}

void to_json(const Study& s, report::Json& body) {
  body["model"] = {{"identity", s.model_identity}, {"name", s.model_name}, {"profile", s.profile}};
  body["text"] = {{"name", s.text_name}, {"sha256", s.text_sha256}};
  body["threads"] = s.threads;
  body["effort"] = {{"captured_tokens", s.effort.captured}, {"layers", s.effort.layers},   {"prompts", s.effort.prompts},
                    {"generated", s.effort.generated},      {"quality_tokens", s.effort.quality_tokens}, {"window", s.effort.window}};
  body["perplexity"] = s.perplexity;
  body["gates"] = report::Json::array();
  for (size_t g = 0; g < kGates; ++g) body["gates"].push_back(gate_name(static_cast<Gate>(g)));
  body["faults"] = report::Json::array();
  for (const FaultResult& r : s.results) {
    const Fault& f = fault_of(r);
    body["faults"].push_back({{"fault", r.name}, {"class", class_name(f.fault_class)}, {"op", f.op}, {"measured", r.measured},
                              {"predicted", prediction(f, s.biases, s.profile)}, {"differing", r.apart.differing}, {"elements", r.apart.elements},
                              {"prompts_parted", r.parted}, {"perplexity", r.perplexity}, {"refused", r.refused}, {"suite_case", r.suite_case}, {"first", r.apart.first}});
  }
  body["findings"] = findings(s);
  body["not_run"] = s.missing;
  body["equivalent"] = report::Json::array();
  for (const Equivalent& e : equivalents()) body["equivalent"].push_back({{"name", e.name}, {"op", e.op}, {"condition", e.condition}, {"proof", e.proof}});
}

report::Page to_page(const Study& s, const report::Json& finished) {
  report::Page page("Faults against gates", fmt::format("{}, {}", s.model_name, s.profile));
  page.verdict(s.holds() ? Tone::kGood : Tone::kBad, headline(s), fmt::format("{}, each in the computing code, one at a time; {} gates", counted(static_cast<int64_t>(s.results.size()), "fault"), kGates));
  const Tally spacing = tally(s, Gate::kOneSpacing), torch = tally(s, Gate::kTorch), tokens = tally(s, Gate::kTokens), perplexity = tally(s, Gate::kPerplexity);
  const auto fact = [](const char* name, const Tally& t) { return report::Page::Fact{name, fmt::format("{} of {}", t.unnoticed, t.change), "pass unnoticed", Tone::kPlain}; };
  std::vector<report::Page::Fact> facts = {{"equal bits", fmt::format("{} of {}", count(s, Gate::kSuite, kNoticed), s.results.size()), "rejected on the suite's inputs", s.holds() ? Tone::kGood : Tone::kBad},
              fact("one bf16 spacing", spacing), fact("PyTorch's default", torch)};
  if (s.effort.asks_text()) facts.push_back(fact("greedy tokens", tokens)), facts.push_back(fact("perplexity", perplexity));
  page.facts(facts);
  if (s.missing > 0) page.note(Tone::kWarn, fmt::format("{} of the catalogue {} not run.", counted(s.missing, "fault"), verb(s.missing, "was", "were")));

  page.section("Kill matrix", "Dark: the gate notices the fault. Light: it passes. A mark \"!\" stands where the prediction, made before the measurement, was another. "
                              "The first gate is asked of the suite's own inputs, the next seven of outputs on captured inputs, the last two of the model's text.");
  report::HeatMap heat{"fault", "gate", "noticed", {}, {}, {}, {}, report::Scale::kLinear};
  for (size_t g = 0; g < kGates; ++g) heat.columns.emplace_back(gate_short(static_cast<Gate>(g)));
  for (const FaultResult& r : s.results) {
    heat.rows.push_back(r.name);
    heat.values.emplace_back();
    heat.texts.emplace_back();
    for (size_t g = 0; g < kGates; ++g) {
      heat.values.back().push_back(r.measured[g] == kNoticed ? 1 : r.measured[g] == kPassed ? 0 : NAN);
      heat.texts.back().push_back(letter(s, r, g));
    }
  }
  page.chart(heat, "x: noticed; .: passed; -: not asked");
  page.folded_table(kill_table(s), "The matrix as a table");
  page.heading("In words");
  page.list(findings(s));

  page.section("What each gate lets through", "Of the faults that change bits of this model's outputs.");
  report::BarChart bars{"faults", {}, {}, {{static_cast<double>(spacing.change), "all that change bits"}}};
  for (const Gate gate : {Gate::kEqual, Gate::kOneSpacing, Gate::kTorch, Gate::kVllmTriton, Gate::kVllmCutlass, Gate::kCosine, Gate::kMaxRelative, Gate::kTokens, Gate::kPerplexity})
    bars.bars.push_back({std::string(gate_short(gate)), {static_cast<double>(tally(s, gate).unnoticed)}, {fmt::format("{} of {}", tally(s, gate).unnoticed, tally(s, gate).change)}});
  bars.series = {"pass unnoticed"};
  page.chart(bars, "Faults that pass unnoticed, by gate");

  page.section("How far apart", "bf16 outputs on captured inputs, by the distance from what they should be.");
  report::Histogram histogram{"bf16 spacings", "faults", {"faults"}, {}, {{}}, report::Scale::kLinear};
  for (size_t i = 0; i < kApartNames.size(); ++i) {
    histogram.bins.emplace_back(kApartNames[i]);
    histogram.counts[0].push_back(static_cast<double>(std::count_if(s.results.begin(), s.results.end(), [i](const FaultResult& r) {
      size_t largest = 0;
      for (size_t b = 1; b < kApartNames.size(); ++b)
        if (r.apart.spacings[b] > 0) largest = b;
      return largest == i;
    })));
  }
  page.chart(histogram, "Faults by the largest distance that they cause anywhere");
  page.table(distance_table(s));

  page.section("The catalogue", "What is computed instead of the rule.");
  page.folded_table(fault_table(), "All faults with their predictions");
  page.heading("Cannot change a bit");
  page.paragraph("Other code for the same rule; listed apart, with the proof.");
  page.table(equivalent_table());
  page.provenance(finished);
  return page;
}

}  // namespace zeroulp::verify
