#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "args.h"
#include "attest.h"
#include "base/file.h"
#include "model_text.h"
#include "mpi_run.h"
#include "report/progress.h"
#include "verbs.h"
#include "verify/verify_report.h"

namespace zeroulp::cli {
namespace {

struct Options {
  std::string model, text, reference, plant = "none", json, html, record, replay, key, kernel, device = "cpu";
  bool quick = false, epilogues = false, force = false, locate = false;
  int64_t decode = 32;
  double temperature = 0;
  uint64_t seed = 0;
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
  if (a.has_digests) {
    fmt::print("{}\n", verify::digest_table(a.digests).text());
    fmt::print("pairs of axis values covered: {} of {}\n\n", a.digests.coverage.covered, a.digests.coverage.total);
  }
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
  if (a.first_difference) fmt::print("first divergence, {} against the baseline:\n  {}\n", a.located_in.describe(), a.first_difference->text());
  for (const std::string& s : a.skipped) tell(fmt::format("skipped: {}", s));
  tell(fmt::format("{}: {}", a.holds() ? "HOLDS" : "DOES NOT HOLD", a.verdict()));
}

Result<int> run(const Options& o) {
  const auto plant = engine::plant_from_name(o.plant);
  if (!plant) return usage_error(fmt::format("--plant {}: one of {}", o.plant, fmt::join(engine::kPlantNames, ", ")));
  if (!o.record.empty() || !o.replay.empty()) {
    const AttestOptions attest{o.model, o.text, o.record, o.replay, o.key, o.json, o.kernel, o.device, o.threads, o.decode, o.temperature, o.seed, o.force, *plant};
    return o.replay.empty() ? record_run(attest) : replay_run(attest);
  }
  report::Report report("verify");
  verify::Request request;
  request.plant = *plant;
  request.locate = o.locate;
  request.digests = !o.epilogues;
  ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o.model));
  ZU_TRY_ASSIGN(ModelText text, read_model_text("verify", o.model, o.text));
  request.model = &model;
  request.tokens = std::move(text.tokens);
  request.text_name = text.name;
  request.text_sha256 = text.sha256;
  request.threads = static_cast<int>(o.threads);
  ZU_TRY_ASSIGN(request.device, device::parse_device(o.device));
  if (request.device >= 0) ZU_TRY(device::use(request.device));
  request.effort = o.quick ? verify::Effort::quick() : verify::Effort::full(model.weight_bytes());
  // What two real kernels make of whole generations is why one asks for a GPU's rows, and quick there.
  if (request.device >= 0) request.effort.prompts = verify::Effort{}.prompts, request.effort.generated = verify::Effort{}.generated;
  std::unique_ptr<model::Checkpoint> reference;
  if (!o.reference.empty()) {
    ZU_TRY_ASSIGN(model::Checkpoint checkpoint, model::Checkpoint::open(o.reference));
    if (checkpoint.config().vocab != model.config().vocab)
      return bad_input(fmt::format("{}: a vocabulary of {} rows, the model has {}: it is not the original of {}", o.reference, checkpoint.config().vocab,
                                   model.config().vocab, o.model));
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
             "zeroulp verify models/smollm2-w8a15 --record run.zlog   # and elsewhere: zeroulp verify models/smollm2-w8a15 --replay run.zlog",
             "zeroulp verify models/smollm2-w8a15 --quick --locate --plant threads   # must exit with 1 and name the axis and the op"});
  args.positional("MODEL", o.model, "folder of a quantised model");
  args.input("--text", o.text, "ordinary text to work on; without it a short built-in one, too short for --reference");
  args.input("--reference", o.reference, "Hugging Face folder of the original model, to measure quality against");
  args.flag("--quick", o.quick, "a few minutes: fewer configurations, prompts and tokens");
  args.flag("--epilogues", o.epilogues, "only the two foreign epilogues: no digests, no quality");
  args.option("--device", o.device, "cuda or cuda:N: its rows join the digest table, its kernels the foreign epilogues, and it measures the quality");
  args.option("--threads", o.threads, "threads for the parts that are not about threads", 1, 1024);
  args.option("--plant", o.plant, "put a known order-dependence into the computing code: the check must then fail");
  args.flag("--locate", o.locate, "when bits differ: find token, layer, op and element where they first do");
  args.output("--json", o.json, "write the report as JSON; - for standard output");
  args.output("--html", o.html, "write the report as a page");
  args.force(o.force, "replace existing reports");
  args.output("--record", o.record, "run prompts of the text and write what came out, for --replay on another machine; nothing else is checked");
  args.input("--replay", o.replay, "run the prompts of such a log again: are all bits the same here?");
  args.input("--key", o.key, "file with a secret of 16 bytes or more: the log's seal is then HMAC-SHA-256");
  args.option("--kernel", o.kernel, "for --record and --replay: force a variant, or op=variant,...; empty: the fastest");
  args.option("--decode", o.decode, "for --record: tokens to generate after each prompt", 0, verify::kMaxDecodeTokens);
  args.option("--temperature", o.temperature, "for --record: 0 takes the likeliest token", 0, 1000);
  args.option("--seed", o.seed, "for --record: of the counter-based random numbers");
  const auto attests = [&o] { return !o.record.empty() || !o.replay.empty(); };
  args.excludes({"--record"}, {"--replay", "--json"});
  args.excludes({"--quick", "--epilogues", "--reference", "--html", "--locate"}, {"--record", "--replay"});
  args.excludes({"--epilogues"}, {"--reference", "--locate", "--plant"});
  args.excludes({"--text"}, {"--replay"});
  args.needs({"--key", "--kernel"}, attests, "--record or --replay");
  args.needs({"--decode", "--temperature", "--seed"}, "--record");
  args.needs({"--seed"}, [&o] { return o.temperature > 0; }, "--temperature above 0");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Result<int> code = run(o);
  return code ? *code : fail("verify", code.error());
}

}  // namespace zeroulp::cli
