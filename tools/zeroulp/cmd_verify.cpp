#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "args.h"
#include "base/file.h"
#include "model_text.h"
#include "mpi_run.h"
#include "report/progress.h"
#include "verbs.h"
#include "verify/verify_report.h"

namespace zeroulp::cli {
namespace {

struct Options {
  std::string model, text, reference, plant = "none", json, html, device = "cpu";
  bool quick = false, force = false;
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
};

// One progress bar for the step at hand.
class Steps {
 public:
  void operator()(const std::string& step, int64_t done, int64_t total) {
    if (step != step_) {
      step_ = step;
      bar_ = std::make_unique<report::Progress>(step, static_cast<uint64_t>(total));
    }
    bar_->set(static_cast<uint64_t>(done));
  }
  void end() { bar_.reset(); }

 private:
  std::string step_;
  std::unique_ptr<report::Progress> bar_;
};

void print(const verify::Answer& a) {
  fmt::print("{}\n", verify::digest_table(a.digests).text());
  fmt::print("pairs of axis values covered: {} of {}\n\n", a.digests.coverage.covered, a.digests.coverage.total);
  std::vector<std::string> on_gpu;
  for (const verify::TableRow& r : a.digests.rows)
    for (const std::string& kernel : r.graph_kernels)
      if (std::find(on_gpu.begin(), on_gpu.end(), kernel) == on_gpu.end()) on_gpu.push_back(kernel);
  if (!on_gpu.empty()) fmt::print("kernels of the decoding steps, as the GPU's graphs name them: {}\n\n", fmt::join(on_gpu, ", "));
  if (a.orders.inputs > 0) {
    fmt::print("scale order of CUTLASS against Triton, layer inputs captured from the model:\n{}\n", verify::order_table(a).text());
    fmt::print("greedy generations under both, {} tokens each:\n{}\n", a.partings.empty() ? 0 : a.partings.front().arbitrary.tokens, verify::generation_table(a).text());
  }
  if (a.quality) fmt::print("quality against the reference path:\n{}\n", verify::quality_table(*a.quality).text());
  for (const std::string& s : a.skipped) fmt::print("skipped: {}\n", s);
  fmt::print("{}: {}\n", a.holds() ? "HOLDS" : "DOES NOT HOLD", a.verdict());
}

Result<int> run(const Options& o) {
  report::Report report("verify");
  verify::Request request;
  const auto plant = engine::plant_from_name(o.plant);
  if (!plant) return usage_error(fmt::format("--plant {}: one of {}", o.plant, fmt::join(engine::kPlantNames, ", ")));
  request.plant = *plant;
  ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o.model));
  ZU_TRY_ASSIGN(ModelText text, read_model_text(o.model, o.text));
  request.model = &model;
  request.tokens = std::move(text.tokens);
  request.text_name = text.name;
  request.text_sha256 = text.sha256;
  request.threads = static_cast<int>(o.threads);
  ZU_TRY_ASSIGN(request.device, device::parse_device(o.device));
  if (request.device >= 0) ZU_TRY(device::use(request.device));
  request.effort = o.quick ? verify::Effort::quick() : verify::Effort::full(model.weight_bytes());
  std::unique_ptr<model::Checkpoint> reference;
  if (!o.reference.empty()) {
    ZU_TRY_ASSIGN(model::Checkpoint checkpoint, model::Checkpoint::open(o.reference));
    reference = std::make_unique<model::Checkpoint>(std::move(checkpoint));
    request.reference = reference.get();
  }
  request.why_no_mpi = why_no_mpi();
  if (request.why_no_mpi.empty())
    request.under_mpi = [&o](const verify::Workload& work, int ranks) { return digest_under_mpi(o.model, work, ranks); };
  Steps steps;
  verify::Callbacks callbacks{[&](const std::string& step, int64_t done, int64_t total) { steps(step, done, total); }};
  auto answer = verify::verify(request, callbacks);
  steps.end();
  if (!answer) return std::move(answer).error();
  if (o.json != "-") print(*answer);
  verify::to_json(request, *answer, report.body);
  if (!o.json.empty()) ZU_TRY(report.write(o.json, o.force));
  if (!o.html.empty()) ZU_TRY(verify::to_page(request, *answer, report.finished()).write(o.html, o.force));
  return answer->holds() ? 0 : 1;
}

}  // namespace

int cmd_verify(int argc, char** argv) {
  Options o;
  Args args("verify", "Is it still the same model? Digests over every axis, foreign epilogues, quality.",
            {"zeroulp verify models/smollm2-w8a15 --quick --text models/text/technical.txt --reference models/smollm2 --html out/verify.html",
             "zeroulp verify models/smollm2-w8a15 --text models/text/novel.txt --json verify.json",
             "zeroulp verify models/smollm2-w8a15 --quick --plant threads   # must exit with 1 and name the axis"});
  args.positional("MODEL", o.model, "folder of a quantised model");
  args.option("--text", o.text, "ordinary text to work on; without it a short built-in one, too short for --reference");
  args.option("--reference", o.reference, "Hugging Face folder of the original model, to measure quality against");
  args.flag("--quick", o.quick, "a few minutes: fewer configurations, prompts and tokens");
  args.option("--device", o.device, "cuda or cuda:N: its rows join the digest table, and it measures the quality");
  args.option("--threads", o.threads, "threads for the parts that are not about threads", 1, 1024);
  args.option("--plant", o.plant, "put a known order-dependence into the computing code: the check must then fail");
  args.option("--json", o.json, "write the report as JSON; - for standard output");
  args.option("--html", o.html, "write the report as a page");
  args.flag("--force", o.force, "replace existing reports");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Result<int> code = run(o);
  return code ? *code : fail("verify", code.error());
}

}  // namespace zeroulp::cli
