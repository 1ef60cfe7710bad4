#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <optional>
#include <thread>

#include "args.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/generate.h"
#include "engine/kv_file.h"
#include "io/json.h"
#include "model/quantized_model.h"
#include "model_text.h"
#include "report/json.h"
#include "tokenizer/tokenizer.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

struct Options {
  std::string model, prompt, file, batch_file, system, kernel, json, save_kv, load_kv, device = "cpu";
  std::vector<std::string> stop;
  bool chat = false, ignore_stop = false, quiet = false, force = false, no_digests = false;
  int64_t max_tokens = 256, threads = std::max(1u, std::thread::hardware_concurrency()), ranks = 1, batch = 8, context = 4096, top_k = 0;
  double temperature = 0, top_p = 1;
  uint64_t seed = 0;
};

constexpr uint64_t kPromptLimit = 64ull << 20;

Result<std::string> read_standard_input() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (text.size() > kPromptLimit) return bad_input("the prompt on standard input is longer than 64 MiB");
  return text;
}

struct Prompt {
  std::string text;
  std::string where;           // opens lines about it: "--prompt", or file and line
  std::optional<Error> error;  // why it cannot be run
};

// A line that begins with a quotation mark is a JSON string, so that prompts may hold line breaks.
Prompt batch_prompt(const std::string& line, std::string where) {
  if (line[0] != '"') return {line, std::move(where), {}};
  const auto json = io::parse_json(line, "a JSON string");
  if (json && json->is_string()) return {json->get<std::string>(), std::move(where), {}};
  return {"", std::move(where), json ? bad_input("is not a JSON string") : json.error()};
}

// One prompt, or with --batch one to a line that is not empty.
Result<std::vector<Prompt>> read_prompts(const Options& o) {
  if (o.file.empty() && o.batch_file.empty()) return std::vector<Prompt>{{o.prompt, o.prompt.empty() && !o.load_kv.empty() ? "--load-kv" : "--prompt", {}}};
  const std::string& path = o.file.empty() ? o.batch_file : o.file;
  std::string text;
  if (path == "-") {
    ZU_TRY_ASSIGN(text, read_standard_input());
  } else {
    ZU_TRY_ASSIGN(text, read_text_file(path, kPromptLimit));
  }
  const std::string name = path == "-" ? "standard input" : path;
  if (!o.file.empty()) return std::vector<Prompt>{{std::move(text), name, {}}};
  std::vector<Prompt> prompts;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (at == 0 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    at = end + 1;
    ++number;
    if (!line.empty()) prompts.push_back(batch_prompt(line, fmt::format("{}:{}", name, number)));
  }
  if (prompts.empty()) return bad_input(fmt::format("{}: holds no prompt", path));
  return prompts;
}

// The text of one request as it grows: stop strings are looked for, and text that may still become one is held back.
class TextStream {
 public:
  TextStream(const tokenizer::Tokenizer& tokenizer, uint32_t rows, const std::vector<std::string>& stop)
      : decoder_(tokenizer, {.skip_special = true}, rows), stop_(stop) {}

  // The text that may be shown now.
  Result<std::string> push(int32_t token) {
    ZU_TRY_ASSIGN(const std::string piece, decoder_.push(static_cast<uint32_t>(token)));
    return take(piece, false);
  }
  std::string finish() { return take(stopped_ ? "" : decoder_.finish(), true); }
  bool stopped() const { return stopped_; }
  const std::string& text() const { return text_; }

 private:
  std::string take(const std::string& piece, bool all) {
    if (stopped_) return "";
    held_ += piece;
    size_t cut = std::string::npos;
    for (const std::string& s : stop_) cut = std::min(cut, held_.find(s));
    if (cut != std::string::npos) {
      stopped_ = true;
      held_.resize(cut);
      all = true;
    }
    const size_t keep = all ? 0 : longest_beginning();
    std::string out = held_.substr(0, held_.size() - keep);
    held_.erase(0, out.size());
    text_ += out;
    return out;
  }
  // The longest end of held_ that begins a stop string.
  size_t longest_beginning() const {
    size_t longest = 0;
    for (const std::string& s : stop_)
      for (size_t n = std::min(s.size() - 1, held_.size()); n > longest; --n)
        if (held_.compare(held_.size() - n, n, s, 0, n) == 0) longest = n;
    return longest;
  }

  tokenizer::DecodeStream decoder_;
  const std::vector<std::string>& stop_;
  std::string held_, text_;
  bool stopped_ = false;
};

std::string_view end_name(engine::End end) {
  switch (end) {
    case engine::End::kStopToken: return "stop token";
    case engine::End::kMaxTokens: return "token limit";
    case engine::End::kContext: return "context limit";
    case engine::End::kStopped: return "stop string";
  }
  return "";
}

Result<std::vector<int32_t>> encode_prompt(const Options& o, const tokenizer::Tokenizer& tokenizer, const Prompt& from) {
  const std::string& text = from.text;
  tokenizer::Encoding encoding;
  if (o.chat) {
    std::vector<tokenizer::Message> messages;
    if (!o.system.empty()) messages.push_back({"system", o.system});
    messages.push_back({"user", text});
    ZU_TRY_ASSIGN(const tokenizer::ChatPrompt prompt, tokenizer.chat().render(messages));
    encoding = tokenizer.encode(prompt);
  } else {
    encoding = tokenizer.encode(text, {.add_special = o.load_kv.empty()});  // a saved cache has its begin-of-text
  }
  say_what_was_lost("run", from.where, encoding);
  return std::vector<int32_t>(encoding.ids.begin(), encoding.ids.end());
}

class Run {
 public:
  explicit Run(const Options& options) : o_(options), report_("run") {}

  Result<int> operator()() {
    ZU_TRY_ASSIGN(prompts_, read_prompts(o_));
    ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o_.model));
    ZU_TRY_ASSIGN(const tokenizer::Tokenizer tokenizer, tokenizer::Tokenizer::load(o_.model));
    if (!o_.load_kv.empty()) {
      ZU_TRY_ASSIGN(saved_, engine::SavedKv::open(o_.load_kv, model));
    }
    ZU_TRY_ASSIGN(std::vector<engine::Request> requests, make_requests(tokenizer, model.config()));
    engine::EngineOptions options = engine_options(requests, model);
    ZU_TRY_ASSIGN(options.device, device::parse_device(o_.device));
    ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(model, options));
    connect_caches(*engine, model, requests[0]);
    const auto rows = static_cast<uint32_t>(model.config().vocab);
    for (size_t i = 0; i < requests.size(); ++i) streams_.emplace_back(tokenizer, rows, o_.stop);
    started_ = first_token_ = std::chrono::steady_clock::now();
    const bool batch = !o_.batch_file.empty();
    auto outcomes = engine::generate(*engine, requests, o_.batch, [&](const engine::Step& s) { return on_step(s, !batch); }, !o_.no_digests);
    if (!batch) show(streams_[0].finish());
    if (!batch && (outcomes || !streams_[0].text().empty())) show("\n");
    if (!outcomes) return std::move(outcomes).error();
    if (!error_.text.empty()) return error_;
    if (batch) print_batch(requests);
    return finish(*engine, model, requests, *outcomes);
  }

 private:
  // The requests of all prompts that can be run. A prompt that cannot is an error alone, and with --batch a line that names it. A request's
  // id, which is part of the random numbers, is its prompt's place, so that no prompt's text depends on the others.
  Result<std::vector<engine::Request>> make_requests(const tokenizer::Tokenizer& tokenizer, const model::ModelConfig& config) {
    std::vector<engine::Request> requests;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      engine::Request r;
      r.id = i;
      r.sampling = {static_cast<float>(o_.temperature), o_.top_k, o_.top_p, o_.seed};
      r.max_tokens = o_.max_tokens;
      if (!o_.ignore_stop) r.stop_tokens = config.stop_tokens;
      std::optional<Error>& error = prompts_[i].error;
      if (!error) {
        if (auto tokens = encode_prompt(o_, tokenizer, prompts_[i])) {
          r.prompt = saved_.tokens();
          r.prompt.insert(r.prompt.end(), tokens->begin(), tokens->end());
          if (const Status usable = engine::check_request(r, std::min(o_.context, config.max_positions)); !usable) error = usable.error();
        } else {
          error = std::move(tokens).error();
        }
      }
      if (!error) {
        requests.push_back(std::move(r));
        continue;
      }
      error->text = fmt::format("{}: {}", prompts_[i].where, error->text);
      if (o_.batch_file.empty()) return *error;
      say(fmt::format("zeroulp run: {}; it is left out", error->text));
    }
    if (requests.empty()) return bad_input(fmt::format("{}: none of its {} prompts can be run", o_.batch_file, prompts_.size()));
    return requests;
  }

  // Lets the one request begin with the saved cache, and its own cache be saved when it ends.
  void connect_caches(engine::Engine& engine, const model::QuantizedModel& model, engine::Request& r) {
    if (!o_.load_kv.empty())
      r.begin = [this, &engine, &r](int64_t sequence) {
        reused_ = std::min(saved_.positions(), static_cast<int64_t>(r.prompt.size()) - 1);  // the last token is computed for its logits
        return saved_.restore(engine, sequence, reused_);
      };
    if (!o_.save_kv.empty())
      r.end = [this, &engine, &model](int64_t sequence, std::span<const int32_t> tokens) -> Status {
        codec::PackOptions options;
        options.level = codec::Level::kRest;
        options.block_bytes = 65536;
        options.threads = static_cast<int>(o_.threads);
        options.force = o_.force;
        ZU_TRY_ASSIGN(const codec::PackReport done, engine::save_kv(engine, model, sequence, tokens, o_.save_kv, options));
        saved_line_ = fmt::format("{}: {} positions in {} bytes, {} before packing", o_.save_kv, engine.length(sequence), done.bytes_out, done.bytes_in);
        return {};
      };
  }

  engine::EngineOptions engine_options(const std::vector<engine::Request>& requests, const model::QuantizedModel& model) const {
    engine::EngineOptions e;
    e.kernel = o_.kernel;
    e.threads = static_cast<int>(o_.threads);
    e.ranks = static_cast<int>(o_.ranks);
    e.max_context = std::min(o_.context, model.config().max_positions);
    e.max_total_positions = (e.max_context + 128) * std::min<int64_t>(o_.batch, static_cast<int64_t>(requests.size()));
    e.prefix_cache = requests.size() > 1;
    return e;
  }

  void show(std::string_view text) {
    if (o_.json == "-") return;
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  bool on_step(const engine::Step& step, bool stream) {
    steps_.push_back({{"request", step.request}, {"position", step.position}, {"token", step.token}, {"digest", step.digest.hex()}});
    if (steps_.size() == 1) first_token_ = std::chrono::steady_clock::now();
    if (step.stops) return true;
    auto piece = streams_[step.request].push(step.token);
    if (!piece) {
      error_ = std::move(piece).error();
      return false;
    }
    if (stream) show(*piece);
    return !streams_[step.request].stopped();
  }

  void print_batch(const std::vector<engine::Request>& requests) {
    for (size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].finish();
      show(fmt::format("--- {} ---\n{}\n", requests[i].id + 1, streams_[i].text()));
    }
  }

  // 3 when some prompt of a batch could not be run.
  int exit_code(const std::vector<engine::Request>& requests) const { return requests.size() == prompts_.size() ? 0 : 3; }

  Result<int> finish(const engine::Engine& engine, const model::QuantizedModel& model, const std::vector<engine::Request>& requests,
                     const std::vector<engine::Outcome>& outcomes) {
    using Seconds = std::chrono::duration<double>;
    const double prefill = Seconds(first_token_ - started_).count(), total = Seconds(std::chrono::steady_clock::now() - started_).count();
    size_t prompt_tokens = 0;
    for (const engine::Request& r : requests) prompt_tokens += r.prompt.size();
    // In an order that the schedule does not decide.
    std::stable_sort(steps_.begin(), steps_.end(), [](const io::Json& a, const io::Json& b) { return a["request"].get<size_t>() < b["request"].get<size_t>(); });
    num::Sha256 sha;
    for (const io::Json& s : steps_) sha.update(s["digest"].get<std::string>()), sha.update_u64(s["token"].get<uint64_t>());
    const std::string digest = o_.no_digests ? "not asked for" : sha.hex();
    if (!o_.quiet) {
      say(fmt::format("{} prompt tokens{}, {} steps in {:.2f} s (first after {:.2f} s, then {:.1f} tokens/s); digest {}; kernels {}",
                 prompt_tokens, reused_ > 0 ? fmt::format(" ({} of them from {})", reused_, o_.load_kv) : "", steps_.size(), total, prefill, steps_.size() > 1 ? static_cast<double>(steps_.size() - 1) / (total - prefill) : 0.0,
                 digest.substr(0, o_.no_digests ? std::string::npos : 12), fmt::join(engine.kernel_names(), " ")));
      if (!saved_line_.empty()) say(saved_line_);
      for (size_t i = 0; i < outcomes.size(); ++i)
        if (outcomes[i].end == engine::End::kContext)
          say(fmt::format("request {} ended at the context limit of {} tokens", requests[i].id + 1, engine.options().max_context));
    }
    if (o_.json.empty()) return exit_code(requests);
    io::Json& body = report_.body;
    body["model"] = {{"identity", model.identity()}, {"profile", model.header().profile}, {"contract", model::kContract}};
    body["kernels"] = engine.kernel_names();
    body["digest"] = digest;
    body["sampling"] = {{"temperature", o_.temperature}, {"top_k", o_.top_k}, {"top_p", o_.top_p}, {"seed", o_.seed}};
    for (size_t i = 0; i < requests.size(); ++i)
      body["requests"].push_back({{"id", requests[i].id},
                                  {"prompt", requests[i].prompt},
                                  {"tokens", outcomes[i].tokens},
                                  {"text", streams_[i].text()},
                                  {"end", end_name(outcomes[i].end)}});
    for (size_t i = 0; i < prompts_.size(); ++i)
      if (prompts_[i].error) body["left_out"].push_back({{"id", i}, {"error", prompts_[i].error->text}});
    for (const io::Json& s : steps_)
      body["digests"].push_back({{"sequence", requests[s["request"].get<size_t>()].id}, {"position", s["position"]}, {"token", s["token"]}, {"xxh3", s["digest"]}});
    ZU_TRY(report_.write(o_.json, o_.force));
    return exit_code(requests);
  }

  const Options& o_;
  report::Report report_;
  std::vector<Prompt> prompts_;
  std::vector<TextStream> streams_;
  std::vector<io::Json> steps_;
  std::chrono::steady_clock::time_point started_, first_token_;
  Error error_;
  engine::SavedKv saved_;  // without --load-kv empty
  int64_t reused_ = 0;     // positions taken from it
  std::string saved_line_;
};

}  // namespace

int cmd_run(int argc, char** argv) {
  Options o;
  Args args("run", "Generate text; the same bits on every kernel, batch, thread count and machine.",
            {"zeroulp run models/smollm2-w8a15 --chat --prompt 'Why is the sky blue?'",
             "zeroulp run models/smollm2-w8a15 --file prompt.txt --max-tokens 64 --temperature 0.8 --seed 7",
             "zeroulp run models/smollm2-w8a15 --prompt 'Once upon a time' --max-tokens 20 --save-kv story.kv  # then: --load-kv story.kv"});
  args.positional("MODEL", o.model, "folder of a quantised model (zeroulp quantize makes one)");
  args.option("--prompt", o.prompt, "the prompt");
  args.input("--file", o.file, "file with the prompt; - reads standard input");
  args.input("--batch", o.batch_file, "file with one prompt a line (a line starting with \" is a JSON string)");
  args.option("--batch-size", o.batch, "prompts that run together; moves no bit", 1, 256);
  args.flag("--chat", o.chat, "put the prompt through the model's chat template");
  args.option("--system", o.system, "system message for --chat");
  args.option("--max-tokens", o.max_tokens, "tokens to generate at most", 0, 1 << 20);
  args.option("--context", o.context, "positions of one sequence at most; never above the model's", 1, int64_t{1} << 28);
  args.option("--temperature", o.temperature, "0 takes the likeliest token", 0, 1000);
  args.option("--top-k", o.top_k, "sample among the k likeliest tokens; 0: all", 0, int64_t{1} << 31);
  args.option("--top-p", o.top_p, "sample among the likeliest tokens that together reach p", 1e-4, 1);
  args.option("--seed", o.seed, "of the counter-based random numbers");
  args.option("--stop", o.stop, "end at this text, which is not shown; may be repeated");
  args.flag("--ignore-stop", o.ignore_stop, "go on past the model's stop tokens");
  args.option("--kernel", o.kernel, "force a variant (zeroulp doctor lists them), or op=variant,...; empty: the fastest");
  args.option("--device", o.device, "cpu, cuda or cuda:N; moves no bit");
  args.flag("--no-digests", o.no_digests, "no digests of the logits, which on a GPU then never leave it");
  args.option("--threads", o.threads, "threads of each rank; moves no bit", 1, 1024);
  args.option("--ranks", o.ranks, "tensor-parallel ranks in this process; moves no bit", 1, engine::kMaxRanks);
  args.output("--save-kv", o.save_kv, "write the KV cache, packed, when the text ends (docs/spec/kv-cache.md)");
  args.input("--load-kv", o.load_kv, "go on behind a saved KV cache of this model, with the same bits as without the interruption; a prompt is then its continuation");
  args.output("--json", o.json, "write the run with its digests as JSON; - for standard output");
  args.force(o.force, "replace existing output files");
  args.flag("-q,--quiet", o.quiet, "no summary on standard error");
  args.exactly_one({"--prompt", "--file", "--batch"}, "--load-kv");
  args.excludes({"--save-kv", "--load-kv"}, {"--batch"});
  args.excludes({"--load-kv"}, {"--chat"});
  args.needs({"--batch-size"}, "--batch");
  args.needs({"--system"}, "--chat");
  args.excludes({"--no-digests"}, {"--json"});
  args.needs({"--top-k", "--top-p", "--seed"}, [&o] { return o.temperature > 0; }, "--temperature above 0");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  for (const std::string& s : o.stop)
    if (s.empty() || !is_utf8(s))
      return fail("run", usage_error(s.empty() ? "--stop needs some text" : fmt::format("--stop {}: is not UTF-8, and what is generated always is; it would never be found", in_quotes(s))));
  const Result<int> code = Run(o)();
  return code ? *code : fail("run", code.error());
}

}  // namespace zeroulp::cli
