#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "args.h"
#include "base/file.h"
#include "engine/any_model.h"
#include "engine/quality.h"
#include "model/quantized_model.h"
#include "model_text.h"
#include "num/digest.h"
#include "report/json.h"
#include "report/progress.h"
#include "report/text.h"
#include "tokenizer/tokenizer.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

using engine::AnyModel;
using engine::Estimate;
using engine::Quality;

constexpr uint64_t kMaxText = 1ull << 30;

struct Options {
  std::string model, text, against, start = "auto", kernel, device = "cpu";
  int64_t tokens = 20480, from = 0, window = 1024, threads = std::max(1u, std::thread::hardware_concurrency());
  bool f32 = false, json = false;
};

// The tokens to measure and where they come from.
struct Text {
  std::string sha256;
  int64_t total = 0;  // tokens of the whole file
  std::vector<int32_t> tokens;
  std::optional<int32_t> start_token;
};

Result<std::optional<int32_t>> start_token(const Options& o, const tokenizer::Tokenizer& tokenizer, int64_t vocab) {
  if (o.start == "none") return std::optional<int32_t>();
  if (o.start == "auto") {
    if (tokenizer.prefix().empty()) return std::optional<int32_t>();
    return std::optional<int32_t>(static_cast<int32_t>(tokenizer.prefix()[0]));
  }
  int32_t id = 0;
  const auto [stop, error] = std::from_chars(o.start.data(), o.start.data() + o.start.size(), id);
  if (error != std::errc() || stop != o.start.data() + o.start.size() || id < 0 || id >= vocab)
    return usage_error(fmt::format("--start is auto, none, or a token id below {}", vocab));
  return std::optional<int32_t>(id);
}

Result<Text> read_text(const Options& o, int64_t vocab) {
  Text out;
  ZU_TRY_ASSIGN(const std::string text, read_text_file(o.text, kMaxText));
  num::Sha256 sha;
  sha.update(text);
  out.sha256 = sha.hex();
  ZU_TRY_ASSIGN(const tokenizer::Tokenizer tokenizer, tokenizer::Tokenizer::load(o.model));
  ZU_TRY_ASSIGN(out.start_token, start_token(o, tokenizer, vocab));
  const tokenizer::Encoding encoding = tokenizer.encode(text, {.add_special = false, .parse_special = false});
  say_what_was_lost("quality", o.text, encoding);
  out.total = static_cast<int64_t>(encoding.ids.size());
  const int64_t begin = std::min(o.from, out.total), end = std::min(out.total, begin + o.tokens);
  out.tokens.assign(encoding.ids.begin() + begin, encoding.ids.begin() + end);
  const int64_t needed = out.start_token ? 1 : 2;
  if (end - begin < needed)
    return unavailable(fmt::format("{}: has {} tokens, of which {} from token {} on are asked for: nothing to measure (--tokens, --from)", o.text,
                                   out.total, o.tokens, o.from));
  return out;
}

io::Json to_json(const Estimate& e) {
  io::Json out = {{"value", e.value}};
  if (e.low) out["interval_95"] = {*e.low, *e.high};
  return out;
}

io::Json to_json(const std::string& folder, const AnyModel& m) {
  io::Json out = {{"folder", folder}, {"kind", m.kind()}};
  if (m.quantized()) out["identity"] = m.identity();
  if (m.quantized()) out["kernels"] = m.kernels();
  return out;
}

io::Json to_json(const Quality& q) {
  io::Json out = {{"windows", q.windows}, {"positions", q.positions}, {"predicted", q.predicted}, {"perplexity", q.perplexity}, {"nll_q24", q.nll_q24}};
  if (!q.compared) return out;
  out["reference_perplexity"] = q.reference_perplexity;
  out["reference_nll_q24"] = q.reference_nll_q24;
  out["perplexity_change"] = to_json(q.perplexity_change);
  out["kl"] = to_json(q.kl);
  out["top1"] = to_json(q.top1);
  out["top1_equal"] = q.top1_equal;
  out["worst"] = {{"window", q.worst.window}, {"position", q.worst.position}, {"kl", q.worst.kl}};
  return out;
}

std::string interval(const Estimate& e, double unit, int digits, bool sign = false) {
  if (!e.low) return "";
  const double low = *e.low * unit, high = *e.high * unit;
  return sign ? fmt::format("   [{:+.{}f}, {:+.{}f}]", low, digits, high, digits) : fmt::format("   [{:.{}f}, {:.{}f}]", low, digits, high, digits);
}

void print_quality(const Options& o, const Text& text, const engine::QualityText& windows, const AnyModel& m, const AnyModel* reference,
                   const Quality& q) {
  const auto describe = [](const std::string& folder, const AnyModel& a) {
    return folder + "  " + a.kind() + (a.quantized() ? ", identity " + a.identity() : "");
  };
  tell(fmt::format("model       {}", describe(o.model, m)));
  if (reference != nullptr) tell(fmt::format("against     {}", describe(o.against, *reference)));
  tell(fmt::format("text        {}  sha256 {}", o.text, text.sha256));
  fmt::print("tokens      {} to {} of {}, {} windows of {}, start token {}\n", o.from, o.from + windows.tokens_used() - 1,
             report::count_text(text.total), q.windows, o.window, text.start_token ? fmt::format("{}", *text.start_token) : "none");
  if (!q.compared) {
    fmt::print("perplexity  {:.4f}\n", q.perplexity);
    return;
  }
  fmt::print("perplexity  {:.4f} against {:.4f}: {:+.3f} %{}\n", q.perplexity, q.reference_perplexity, 100 * q.perplexity_change.value,
             interval(q.perplexity_change, 100, 3, true));
  fmt::print("KL          {:.5f} nats per token{}\n", q.kl.value, interval(q.kl, 1, 5));
  fmt::print("top-1       {:.2f} % the same{}\n", 100 * q.top1.value, interval(q.top1, 100, 2));
  fmt::print("worst       window {}, position {}: KL {:.4f}\n", q.worst.window, q.worst.position, q.worst.kl);
  if (q.kl.low) fmt::print("Brackets hold 95 % confidence intervals over windows.\n");
}

Status run(const Options& o) {
  report::Report report("quality");
  ZU_TRY_ASSIGN(const int device, device::parse_device(o.device));
  AnyModel::Options open{static_cast<int>(o.threads), o.kernel, device, o.f32 ? engine::FloatDecoder::Mode::kF32 : engine::FloatDecoder::Mode::kBf16, o.window};
  ZU_TRY_ASSIGN(AnyModel model, AnyModel::open(o.model, open));
  ZU_TRY_ASSIGN(const Text text, read_text(o, model.config().vocab));
  const engine::QualityText windows{text.tokens, o.window, text.start_token};
  ZU_TRY(engine::refuse_calibration_overlap(model.recipe(), text.sha256, o.from, windows.tokens_used()));
  std::optional<AnyModel> reference;
  if (!o.against.empty()) {
    ZU_TRY_ASSIGN(reference, AnyModel::open(o.against, open));
    ZU_TRY(engine::refuse_calibration_overlap(reference->recipe(), text.sha256, o.from, windows.tokens_used()));
    if (reference->config().vocab != model.config().vocab)
      return bad_input(fmt::format("{} has {} tokens and {} has {}: their logits cannot be compared", o.model, model.config().vocab, o.against,
                                   reference->config().vocab));
  }
  for (const AnyModel* m : {&model, reference ? &*reference : nullptr})
    if (m != nullptr)
      for (const std::string& note : m->notes()) say(fmt::format("zeroulp quality: {}", note));

  report::Progress progress("quality", static_cast<uint64_t>(windows.windows()), "windows");
  engine::QualityJob job{windows, model.config().vocab, model.decode(), std::nullopt, [&](int64_t done) { progress.set(static_cast<uint64_t>(done)); }};
  if (reference) job.reference = reference->source();
  ThreadPool pool(static_cast<int>(o.threads));
  ZU_TRY_ASSIGN(const ops::Kernels kernels, ops::select_kernels(device < 0 ? o.kernel : "", cpu_features()));
  ZU_TRY_ASSIGN(const Quality quality, engine::measure_quality(job, kernels, pool));
  if (!o.json) {
    print_quality(o, text, windows, model, reference ? &*reference : nullptr, quality);
    return {};
  }
  report.body["model"] = to_json(o.model, model);
  if (reference) report.body["against"] = to_json(o.against, *reference);
  report.body["text"] = {{"file", o.text}, {"sha256", text.sha256}, {"first_token", o.from}, {"tokens", windows.tokens_used()},
                         {"tokens_in_file", text.total}, {"window", o.window},
                         {"start_token", text.start_token ? io::Json(*text.start_token) : io::Json(nullptr)}};
  report.body["quality"] = to_json(quality);
  fmt::print("{}", report::json_text(report.finished()));
  return {};
}

}  // namespace

int cmd_quality(int argc, char** argv) {
  Args args("quality", "Perplexity of a model on a text, and how far it is from a reference: divergence and agreement.",
            {"zeroulp quality models/smollm2-w8a15 --text models/text/technical.txt --against models/smollm2",
             "zeroulp quality models/smollm2 --text notes.txt --tokens 4096 --json"});
  Options o;
  args.positional("MODEL", o.model, "a quantised folder, or a Hugging Face folder (run in BF16 with fp32 sums)");
  args.input("--text", o.text, "the text to be predicted, UTF-8");
  args.input("--against", o.against, "the reference: a folder of either kind");
  args.option("--tokens", o.tokens, "tokens of the text to use; whole windows of them are", 2, int64_t{1} << 40);
  args.option("--from", o.from, "the text's first token to use", 0, int64_t{1} << 40);
  args.option("--window", o.window, "tokens that see each other", 2, 1 << 20);
  args.option("--start", o.start, "token that opens every window: auto (what the tokenizer puts before a text), none, or an id");
  args.option("--kernel", o.kernel, "variant of the integer kernels; empty: the fastest");
  args.option("--device", o.device, "where quantised folders run: cpu, cuda or cuda:N; moves no bit");
  args.option("--threads", o.threads, "threads; never moves a bit", 1, 1024);
  args.flag("--f32", o.f32, "run Hugging Face folders in FP32 throughout");
  args.flag("--json", o.json, "the outcome as JSON (schema zeroulp.quality/1)");
  const auto any_model = [&o](bool quantized) {
    const auto is = [&](const std::string& folder) { return !folder.empty() && model::is_quantized_folder(folder) == quantized; };
    return is(o.model) || is(o.against);
  };
  args.needs({"--kernel"}, [&] { return any_model(true); }, "a quantised model");
  args.needs({"--f32"}, [&] { return any_model(false); }, "a Hugging Face folder");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  if (o.text.empty()) return fail("quality", usage_error("--text names the file to be predicted"));
  const Status status = run(o);
  return status ? 0 : fail("quality", status.error());
}

}  // namespace zeroulp::cli
