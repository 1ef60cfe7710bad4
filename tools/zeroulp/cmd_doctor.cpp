#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <thread>

#include "args.h"
#include "base/cpu.h"
#include "ops/conformance.h"
#include "ops/kernels.h"
#include "ops_report.h"
#include "report/json.h"
#include "report/progress.h"
#include "report/table.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

using ops::conformance::Outcome;

struct Options {
  std::string kernel, json;
  bool conformance = false, force = false;
};

struct Findings {
  CpuFeatures cpu;
  std::vector<ops::VariantStatus> variants;
  std::vector<std::string> kernels;  // "op=variant"
  std::optional<std::vector<Outcome>> outcomes;
};

std::vector<Outcome> run_suite(const CpuFeatures& cpu) {
  report::Progress progress("conformance", std::size(ops::conformance::kOps), "ops");
  uint64_t begun = 0;
  return ops::conformance::run_all(cpu, [&](std::string_view op) {
    progress.set(begun++);
    progress.detail(std::string(op));
  });
}

Result<Findings> examine(const Options& o) {
  Findings f{cpu_features(), {}, {}, {}};
  f.variants = ops::variant_status(f.cpu);
  ZU_TRY_ASSIGN(const ops::Kernels kernels, ops::select_kernels(o.kernel, f.cpu));
  f.kernels = kernels.names();
  if (o.conformance) f.outcomes = run_suite(f.cpu);
  return f;
}

void print(const Findings& f) {
  fmt::print("cpu      {}, {} hardware threads\n\n", f.cpu.model, std::thread::hardware_concurrency());
  report::Table variants({{"variant"}, {"here"}});
  for (const ops::VariantStatus& v : f.variants)
    variants.row({v.name, v.why_not.empty() ? "can run" : "cannot run: " + v.why_not});
  fmt::print("{}\n", variants.text());
  report::Table kernels({{"op"}, {"kernel"}});
  for (const std::string& name : f.kernels) kernels.row({name.substr(0, name.find('=')), name.substr(name.find('=') + 1)});
  fmt::print("{}", kernels.text());
  if (!f.outcomes) return;
  fmt::print("\n{}\n{}{}\n", conformance_table(*f.outcomes).text(), first_differences(*f.outcomes),
             conformance_verdict(*f.outcomes).text);
}

void fill(report::Json& body, const Options& o, const Findings& f) {
  body["features"] = {{"avx2", f.cpu.avx2},
                      {"avx512_vnni", f.cpu.avx512_vnni},
                      {"avx512_vbmi", f.cpu.avx512_vbmi},
                      {"amx_int8", f.cpu.amx_int8}};
  for (const ops::VariantStatus& v : f.variants)
    body["variants"].push_back({{"name", v.name}, {"can_run", v.why_not.empty()}, {"why_not", v.why_not}});
  body["kernel_option"] = o.kernel;
  body["kernels"] = f.kernels;
  if (!f.outcomes) return;
  body["contract"] = "ZNC-1";
  body["conformance"] = conformance_json(*f.outcomes);
  const ConformanceVerdict verdict = conformance_verdict(*f.outcomes);
  body["verdict"] = {{"exit_code", static_cast<int>(verdict.code)}, {"text", verdict.text}};
}

}  // namespace

int cmd_doctor(int argc, char** argv) {
  Options o;
  Args args("doctor", "What can run on this machine, and why the rest cannot.",
            {"zeroulp doctor", "zeroulp doctor --conformance", "zeroulp doctor --conformance --json conformance.json"});
  args.option("--kernel", o.kernel, "show the choice for this variant, or for op=variant,...; empty: the fastest");
  args.flag("--conformance", o.conformance, "compare every variant with the reference, bit for bit, on the contract's cases");
  args.option("--json", o.json, "write the findings to this file; - for standard output");
  args.flag("--force", o.force, "overwrite an existing file");
  if (const int code = args.parse(argc, argv); code >= 0) return code;

  report::Report report("doctor");
  const Result<Findings> findings = examine(o);
  if (!findings) return fail("doctor", findings.error());
  if (o.json != "-") print(*findings);
  if (!o.json.empty()) {
    fill(report.body, o, *findings);
    if (const Status written = report.write(o.json, o.force); !written) return fail("doctor", written.error());
  }
  return findings->outcomes ? static_cast<int>(conformance_verdict(*findings->outcomes).code) : 0;
}

}  // namespace zeroulp::cli
