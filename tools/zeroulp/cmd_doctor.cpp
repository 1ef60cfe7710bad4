#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "args.h"
#include "base/cpu.h"
#include "base/interrupt.h"
#include "device/device.h"
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
  std::string kernel, json, device = "cpu";
  std::vector<std::string> only;  // ops
  bool conformance = false, force = false;
};

struct Findings {
  CpuFeatures cpu;
  std::vector<ops::VariantStatus> variants;
  std::vector<std::string> kernels;  // "op=variant"
  std::optional<std::vector<Outcome>> outcomes;
  std::optional<device::Properties> gpu;
  double read_bandwidth = 0;  // of the GPU, bytes per second
};

// On a GPU when `gpu` is its index.
std::vector<Outcome> run_suite(const CpuFeatures& cpu, int gpu, const std::vector<std::string>& only) {
  report::Progress progress("conformance", only.empty() ? std::size(ops::conformance::kOps) : only.size(), "ops");
  uint64_t begun = 0;
  const auto tell = [&](std::string_view op) {
    progress.set(begun++);
    progress.detail(std::string(op));
  };
  return gpu < 0 ? ops::conformance::run_all(cpu, tell, only) : ops::conformance::run_all_on_device(gpu, tell, only);
}

Result<Findings> examine(const Options& o) {
  for (const std::string& name : o.only) {
    const std::string_view op = ops::conformance::split_name(name).first;
    if (std::find(std::begin(ops::conformance::kOps), std::end(ops::conformance::kOps), op) == std::end(ops::conformance::kOps))
      return usage_error(fmt::format("--op {}: there is no such op; there are {}", name, fmt::join(ops::conformance::kOps, ", ")));
  }
  Findings f{cpu_features(), {}, {}, {}, {}};
  ZU_TRY_ASSIGN(const int gpu, device::parse_device(o.device));
  if (gpu < 0) {
    f.variants = ops::variant_status(f.cpu);
    ZU_TRY_ASSIGN(const ops::Kernels kernels, ops::select_kernels(o.kernel, f.cpu));
    f.kernels = kernels.names();
  } else {
    ZU_TRY(device::use(gpu));
    ZU_TRY_ASSIGN(f.gpu, device::properties(gpu));
    ZU_TRY_ASSIGN(f.read_bandwidth, device::read_bandwidth(std::min<int64_t>(f.gpu->memory_bytes / 8, int64_t{4} << 30), 9));
    f.variants = ops::device_variant_status(gpu);
    ZU_TRY_ASSIGN(const ops::DeviceKernels kernels, ops::select_device_kernels(o.kernel));
    f.kernels = kernels.names();
  }
  if (o.conformance) f.outcomes = run_suite(f.cpu, gpu, o.only);
  if (interrupt_requested()) return interrupted();
  return f;
}

void print(const Findings& f, const ConformanceVerdict& verdict) {
  fmt::print("cpu      {}, {} hardware threads\n", f.cpu.model, std::thread::hardware_concurrency());
  if (f.gpu)
    fmt::print("cuda:{}   {}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB, driver {}.{}, reads {:.2f} TB/s\n", f.gpu->index, f.gpu->name,
               f.gpu->major, f.gpu->minor, f.gpu->multiprocessors, static_cast<double>(f.gpu->memory_bytes) / (1 << 30), f.gpu->driver / 1000,
               f.gpu->driver % 1000 / 10, f.read_bandwidth / 1e12);
  fmt::print("\n");
  report::Table variants({{"variant"}, {"here"}});
  for (const ops::VariantStatus& v : f.variants)
    variants.row({v.name, v.why_not.empty() ? "can run" : "cannot run: " + v.why_not});
  fmt::print("{}\n", variants.text());
  report::Table kernels({{"op"}, {"kernel"}});
  for (const std::string& name : f.kernels) kernels.row({name.substr(0, name.find('=')), name.substr(name.find('=') + 1)});
  fmt::print("{}", kernels.text());
  if (!f.outcomes) return;
  fmt::print("\n{}\n{}{}\n", conformance_table(*f.outcomes).text(), first_differences(*f.outcomes), verdict.text);
}

void fill(report::Json& body, const Options& o, const Findings& f, const ConformanceVerdict& verdict) {
  body["features"] = {{"avx2", f.cpu.avx2},
                      {"avx512_vnni", f.cpu.avx512_vnni},
                      {"avx512_vbmi", f.cpu.avx512_vbmi},
                      {"amx_int8", f.cpu.amx_int8}};
  if (f.gpu)
    body["gpu"] = {{"name", f.gpu->name},           {"compute_capability", fmt::format("{}.{}", f.gpu->major, f.gpu->minor)},
                   {"multiprocessors", f.gpu->multiprocessors}, {"memory_bytes", f.gpu->memory_bytes},
                   {"driver", f.gpu->driver},       {"runtime", f.gpu->runtime},
                   {"read_bytes_per_second", f.read_bandwidth}};
  for (const ops::VariantStatus& v : f.variants)
    body["variants"].push_back({{"name", v.name}, {"can_run", v.why_not.empty()}, {"why_not", v.why_not}});
  body["kernel_option"] = o.kernel;
  body["kernels"] = f.kernels;
  if (!f.outcomes) return;
  body["contract"] = "ZNC-1";
  body["conformance"] = conformance_json(*f.outcomes);
  body["verdict"] = {{"exit_code", static_cast<int>(verdict.code)}, {"text", verdict.text}};
}

}  // namespace

int cmd_doctor(int argc, char** argv) {
  Options o;
  Args args("doctor", "What can run on this machine, and why the rest cannot.",
            {"zeroulp doctor", "zeroulp doctor --conformance", "zeroulp doctor --conformance --device cuda --json conformance.json"});
  args.option("--kernel", o.kernel, "show the choice for this variant, or for op=variant,...; empty: the fastest");
  args.option("--device", o.device, "cpu, cuda or cuda:N");
  args.flag("--conformance", o.conformance, "compare every variant with the reference, bit for bit, on the contract's cases");
  args.option("--op", o.only, "only this op, or op=variant; may be repeated");
  args.needs({"--op"}, "--conformance");
  args.output("--json", o.json, "write the findings to this file; - for standard output");
  args.force(o.force, "replace an existing file");
  if (const int code = args.parse(argc, argv); code >= 0) return code;

  report::Report report("doctor");
  const Result<Findings> findings = examine(o);
  if (!findings) return fail("doctor", findings.error());
  const ConformanceVerdict verdict = conformance_verdict(findings->outcomes.value_or(std::vector<Outcome>()), o.only);
  if (o.json != "-") print(*findings, verdict);
  if (!o.json.empty()) {
    fill(report.body, o, *findings, verdict);
    if (const Status written = report.write(o.json, o.force); !written) return fail("doctor", written.error());
  }
  return findings->outcomes ? static_cast<int>(verdict.code) : 0;
}

}  // namespace zeroulp::cli
