#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <thread>

#include "args.h"
#include "base/file.h"
#include "model_text.h"
#include "num/digest.h"
#include "quant/quantize.h"
#include "report/json.h"
#include "report/progress.h"
#include "tokenizer/tokenizer.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

struct Options {
  std::string model, out, profile = "w8a15-free", exponent;
  std::string smooth, calibration;
  int64_t key_width = 0, threads = std::max(1u, std::thread::hardware_concurrency());
  int64_t calibration_tokens = 16384, calibration_from = 0, calibration_window = 1024;
  std::vector<std::string> widths;
  double budget = 0;
  bool absorb = false, no_absorb = false, gptq = false, no_gptq = false, force = false, resume = false, json = false;
};

constexpr uint64_t kMaxText = 1ull << 30;

Result<std::optional<double>> parse_alpha(const std::string& text) {
  if (text == "off") return std::optional<double>();
  double alpha = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  if (error != std::errc() || end != text.data() + text.size() || !(alpha >= 0 && alpha <= 1))
    return usage_error("--smooth is a number from 0 to 1, or off");
  return std::optional<double>(alpha);
}

Result<quant::Options> conversion_options(const Options& o, const model::ModelConfig& config) {
  ZU_TRY_ASSIGN(quant::Options options, quant::profile_options(o.profile, o.exponent));
  if (o.key_width != 0 && o.key_width != 8 && o.key_width != 15) return usage_error("--key-width is 8 or 15");
  if (o.key_width != 0) options.key_width = static_cast<int>(o.key_width);
  for (const std::string& width : o.widths) ZU_TRY(quant::set_width(options, config, width));
  if (o.absorb && options.rule == num::ScaleRule::kFree) return usage_error("--absorb is for power-of-two scales");
  options.absorb = o.absorb || (options.absorb && !o.no_absorb);
  const bool calibrated = !o.calibration.empty();
  options.gptq = o.gptq || (!o.no_gptq && (options.gptq || calibrated));
  if (!o.smooth.empty()) {
    ZU_TRY_ASSIGN(options.smooth, parse_alpha(o.smooth));
  } else if (calibrated && !options.smooth && (o.budget > 0 || quant::has_narrow_linear(options, config))) {
    options.smooth = quant::kDefaultAlpha;
  }
  if (o.budget > 0) {
    if (options.width != 15 || !options.widths.empty())
      return usage_error("--budget chooses the widths itself: use a w8a15 profile and no --width");
    options.budget = o.budget;
  }
  if (!calibrated && (options.gptq || options.smooth))
    return usage_error(
        "GPTQ rounding and smoothing look at text: give --calibration FILE (./dev models makes models/text/calibration.txt), or go without by "
        "--no-gptq --smooth off");
  if (calibrated && !options.gptq && !options.smooth && !options.budget)
    return usage_error("--calibration has no effect without GPTQ rounding, smoothing or --budget; leave it out");
  return options;
}

Result<quant::Calibration> read_calibration(const Options& o) {
  quant::Calibration c;
  if (o.calibration.empty()) return c;
  ZU_TRY_ASSIGN(const std::string text, read_text_file(o.calibration, kMaxText));
  ZU_TRY_ASSIGN(const auto tokenizer, tokenizer::Tokenizer::load(o.model));
  const auto encoding = tokenizer.encode(text, {.add_special = false, .parse_special = false});
  say_what_was_lost("quantize", o.calibration, encoding);
  num::Sha256 sha;
  sha.update(text);
  c.text_sha256 = sha.hex();
  c.first_token = o.calibration_from;
  c.window = o.calibration_window;
  // A quarter for measuring widths, in whole windows.
  if (o.budget > 0) c.held_out = std::max<int64_t>(1, o.calibration_tokens / 4 / c.window) * c.window;
  if (c.held_out >= o.calibration_tokens)
    return usage_error(fmt::format("--budget measures on a quarter of the calibration text, at least a window of {} tokens", c.window));
  const auto available = static_cast<int64_t>(encoding.ids.size());
  if (available < o.calibration_from + o.calibration_tokens)
    return bad_input(fmt::format("{}: has {} tokens; tokens {} to {} are asked for (--calibration-from, --calibration-tokens)", o.calibration,
                                 available, o.calibration_from, o.calibration_from + o.calibration_tokens));
  const auto first = encoding.ids.begin() + o.calibration_from;
  c.tokens.assign(first, first + o.calibration_tokens);
  return c;
}

// One line per stage: made anew when the stage changes.
class ProgressLine {
 public:
  void show(std::string_view stage, int64_t done, int64_t total) {
    if (stage != stage_ || !progress_) {
      progress_.reset();
      stage_ = stage;
      progress_ = std::make_unique<report::Progress>(stage_, static_cast<uint64_t>(total), stage_ == "measuring widths" ? "measurements" : "layers");
    }
    progress_->set(static_cast<uint64_t>(done));
  }

 private:
  std::string stage_;
  std::unique_ptr<report::Progress> progress_;
};

void print_outcome(const Options& o, const quant::Job& job, const quant::Outcome& outcome, report::Report& report) {
  if (o.json) {
    report.body["model"] = o.model;
    report.body["out"] = o.out;
    report.body["options"] = quant::to_json(job.options);
    report.body["calibration"] = quant::to_json(job.calibration);
    report.body["profile"] = outcome.profile;
    report.body["identity"] = outcome.identity;
    report.body["weight_bytes"] = outcome.weight_bytes;
    report.body["codes_saturated"] = outcome.codes_saturated;
    report.body["layers_resumed"] = outcome.layers_resumed;
    report.body["width_choice"] = outcome.width_choice;
    fmt::print("{}", report::json_text(report.finished()));
    return;
  }
  if (!outcome.width_choice.is_null()) {
    const auto share = [&](const char* key) { return outcome.width_choice[key].get<double>(); };
    fmt::print("8-bit inputs for {:.1f} % of the multiply-adds: KL {:.5f} measured on {} tokens ({:.5f} with 15 bits everywhere)\n",
               100 * share("multiply_adds_8") / share("multiply_adds"), share("kl"), outcome.width_choice["tokens"].get<int64_t>(),
               share("kl_all_15"));
  }
  if (outcome.codes_saturated > 0)
    fmt::print("{} codes of -128 became -127: the contract has no -128\n", outcome.codes_saturated);
  tell(fmt::format("{}: {}, {:.1f} MB, identity {}", o.out, outcome.profile, static_cast<double>(outcome.weight_bytes) / 1e6, outcome.identity));
}

Status run(const Options& o) {
  report::Report report("quantize");
  ZU_TRY_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(o.model));
  for (const std::string& note : checkpoint.notes()) say(fmt::format("zeroulp quantize: {}", note));
  quant::Job job;
  ZU_TRY_ASSIGN(job.options, conversion_options(o, checkpoint.config()));
  ZU_TRY_ASSIGN(job.calibration, read_calibration(o));
  job.out = o.out;
  job.threads = static_cast<int>(o.threads);
  job.force = o.force, job.resume = o.resume;
  ProgressLine line;
  job.progress = [&](std::string_view stage, int64_t done, int64_t total) { line.show(stage, done, total); };
  ZU_TRY_ASSIGN(const quant::Outcome outcome, quant::quantize(checkpoint, job));
  print_outcome(o, job, outcome, report);
  return {};
}

}  // namespace

int cmd_quantize(int argc, char** argv) {
  Args args("quantize", "A Hugging Face model folder to an integer model under the contract.",
            {"zeroulp quantize models/smollm2 models/smollm2-w8a15", "zeroulp quantize models/smollm2 OUT --profile w8a8-po2 --calibration models/text/calibration.txt"});
  Options o;
  args.positional("MODEL", o.model, "Hugging Face folder: config.json, safetensors, tokenizer.json");
  args.output_folder("OUT", o.out, "folder to make");
  args.choice("--profile", o.profile, {std::begin(quant::kProfiles), std::end(quant::kProfiles)}, "weight scales and activation widths");
  args.option("--exponent", o.exponent, "rule for power-of-two scales: ceil (no code is clipped), lsq (least squares) or nearest (clips)");
  args.option("--width", o.widths, "NAME=8 or NAME=15: input width of q_proj, layers.3.q_proj or head; may be repeated");
  args.option("--budget", o.budget, "narrow inputs to 8 bits as far as the KL against MODEL stays below this; measured on calibration text", 0, 100);
  args.option("--key-width", o.key_width, "bits of cached keys, 8 or 15; 0: the profile's", 0, 15);
  args.input("--calibration", o.calibration, "text that GPTQ and smoothing look at; giving it turns GPTQ on");
  args.option("--calibration-tokens", o.calibration_tokens, "tokens of it to use", 1, int64_t{1} << 22);
  args.option("--calibration-from", o.calibration_from, "first token to use", 0, int64_t{1} << 31);
  args.option("--calibration-window", o.calibration_window, "tokens that see each other", 1, 131072);
  args.flag("--gptq", o.gptq, "choose codes together for the least error on the text");
  args.flag("--no-gptq", o.no_gptq, "choose each code alone, to nearest");
  args.flag("--absorb", o.absorb, "power-of-two scales: move the rest of up's and v's scales into down and o (w8a15-po2 does)");
  args.flag("--no-absorb", o.no_absorb, "leave it where it is");
  args.option("--smooth", o.smooth, "lossless power-of-two smoothing: alpha from 0 to 1, or off");
  args.option("--threads", o.threads, "threads; never moves a bit", 1, 1024);
  args.force(o.force, "replace OUT if it exists");
  args.flag("--resume", o.resume, "go on with an interrupted conversion to the same OUT");
  args.flag("--json", o.json, "the outcome as JSON (schema zeroulp.quantize/1)");
  args.needs({"--calibration-tokens", "--calibration-from", "--calibration-window"}, "--calibration");
  args.excludes({"--absorb"}, {"--no-absorb"});
  args.excludes({"--gptq"}, {"--no-gptq"});
  args.needs({"--resume"}, [&o] { return quant::interrupted_conversion(o.out); }, "an interrupted conversion to the same OUT");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Status status = run(o);
  return status ? 0 : fail("quantize", status.error());
}

}  // namespace zeroulp::cli
