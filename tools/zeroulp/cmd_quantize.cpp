#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "args.h"
#include "quant/quantize.h"
#include "report/json.h"
#include "report/progress.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

struct Options {
  std::string model, out, profile = "w8a15-free", exponent;
  int64_t key_width = 0, threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::string> widths;
  bool force = false, resume = false, json = false;
};

Result<quant::Options> conversion_options(const Options& o, const model::ModelConfig& config) {
  ZU_TRY_ASSIGN(quant::Options options, quant::profile_options(o.profile, o.exponent));
  if (o.key_width != 0 && o.key_width != 8 && o.key_width != 15) return usage_error("--key-width is 8 or 15");
  if (o.key_width != 0) options.key_width = static_cast<int>(o.key_width);
  for (const std::string& width : o.widths) ZU_TRY(quant::set_width(options, config, width));
  return options;
}

// One line per stage: made anew when the stage changes.
class ProgressLine {
 public:
  void show(std::string_view stage, int64_t done, int64_t total) {
    if (stage != stage_ || !progress_) {
      progress_.reset();
      stage_ = stage;
      progress_ = std::make_unique<report::Progress>(stage_, static_cast<uint64_t>(total), "layers");
    }
    progress_->set(static_cast<uint64_t>(done));
  }

 private:
  std::string stage_;
  std::unique_ptr<report::Progress> progress_;
};

void print_outcome(const Options& o, const quant::Options& options, const quant::Outcome& outcome, report::Report& report) {
  if (o.json) {
    report.body["model"] = o.model;
    report.body["out"] = o.out;
    report.body["options"] = quant::to_json(options);
    report.body["identity"] = outcome.identity;
    report.body["weight_bytes"] = outcome.weight_bytes;
    report.body["layers_resumed"] = outcome.layers_resumed;
    fmt::print("{}", report::json_text(report.finished()));
    return;
  }
  fmt::print("{}: {}, {:.1f} MB, identity {}\n", o.out, options.profile, static_cast<double>(outcome.weight_bytes) / 1e6, outcome.identity);
}

Status run(const Options& o) {
  report::Report report("quantize");
  ZU_TRY_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(o.model));
  for (const std::string& note : checkpoint.notes()) fmt::print(stderr, "zeroulp quantize: {}\n", note);
  quant::Job job;
  ZU_TRY_ASSIGN(job.options, conversion_options(o, checkpoint.config()));
  job.out = o.out;
  job.threads = static_cast<int>(o.threads);
  job.force = o.force, job.resume = o.resume;
  ProgressLine line;
  job.progress = [&](std::string_view stage, int64_t done, int64_t total) { line.show(stage, done, total); };
  ZU_TRY_ASSIGN(const quant::Outcome outcome, quant::quantize(checkpoint, job));
  print_outcome(o, job.options, outcome, report);
  return {};
}

}  // namespace

int cmd_quantize(int argc, char** argv) {
  Args args("quantize", "A Hugging Face model folder to an integer model under the contract.",
            {"zeroulp quantize models/smollm2 models/smollm2-w8a15", "zeroulp quantize models/smollm2 OUT --profile w8a15-po2 --exponent lsq"});
  Options o;
  args.positional("MODEL", o.model, "Hugging Face folder: config.json, safetensors, tokenizer.json");
  args.positional("OUT", o.out, "folder to make");
  args.choice("--profile", o.profile, {std::begin(quant::kProfiles), std::end(quant::kProfiles)}, "weight scales and activation widths");
  args.option("--exponent", o.exponent, "rule for power-of-two scales: ceil (no code is clipped), lsq (least squares) or nearest (clips)");
  args.option("--width", o.widths, "NAME=8 or NAME=15: input width of q_proj, layers.3.q_proj or head; may be repeated");
  args.option("--key-width", o.key_width, "bits of cached keys, 8 or 15; 0: the profile's", 0, 15);
  args.option("--threads", o.threads, "threads; never moves a bit", 1, 1024);
  args.flag("--force", o.force, "replace OUT if it exists");
  args.flag("--resume", o.resume, "go on with an interrupted conversion to the same OUT");
  args.flag("--json", o.json, "the outcome as JSON (schema zeroulp.quantize/1)");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Status status = run(o);
  return status ? 0 : fail("quantize", status.error());
}

}  // namespace zeroulp::cli
