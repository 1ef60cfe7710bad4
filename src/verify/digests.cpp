#include "verify/digests.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "io/fields.h"
#include "ops/argmax/contract.h"

namespace zeroulp::verify {

using engine::Engine;

std::string RunConfig::describe() const {
  const std::string where = device < 0 ? "" : fmt::format("cuda:{}, graphs {}, ", device, graphs ? "on" : "off");
  return fmt::format("{}kernel {}, threads {}, batch {}, chunk {}, ranks {}, prefix cache {}", where, kernel.empty() ? "fastest" : kernel, threads, batch,
                     chunk == 0 ? "all" : std::to_string(chunk), ranks, prefix_cache ? "on" : "off");
}

io::Json RunConfig::to_json() const {
  io::Json json = {{"kernel", kernel.empty() ? "fastest" : kernel}, {"threads", threads}, {"batch", batch},
                   {"chunk", chunk == 0 ? io::Json("all") : io::Json(chunk)}, {"ranks", ranks}, {"prefix_cache", prefix_cache}};
  if (device >= 0) json.update({{"device", fmt::format("cuda:{}", device)}, {"graphs", graphs}});
  return json;
}

num::Digest DigestLog::combined() const {
  std::vector<uint64_t> words;
  for (const auto& [key, digest] : digests)
    for (const uint64_t word : {static_cast<uint64_t>(key.first), static_cast<uint64_t>(key.second), digest.high, digest.low}) words.push_back(word);
  return num::digest_of(std::span<const uint64_t>(words));
}

io::Json DigestLog::to_json() const {
  io::Json entries = io::Json::array();
  for (const auto& [key, digest] : digests) entries.push_back({{"sequence", key.first}, {"position", key.second}, {"xxh3", digest.hex()}});
  io::Json json = {{"combined", combined().hex()}, {"digests", std::move(entries)}, {"tokens", tokens}, {"kernels", kernels}};
  if (!graph_nodes.empty()) json["graph_nodes"] = graph_nodes;
  return json;
}

std::vector<std::string> kernels_of_graph(const std::vector<std::string>& nodes) {
  std::vector<std::string> names;
  for (const std::string& node : nodes) {
    if (node == "memset" || node == "memcpy") continue;
    // "void zeroulp::ops::rope::(anonymous namespace)::rope_kernel<true>(zeroulp::ops::rope::Args)": from the last namespace to the arguments.
    std::string name = node.substr(0, node.rfind('('));
    const size_t templates = std::min(name.find('<'), name.size());
    const size_t colon = name.rfind("::", templates);
    if (colon != std::string::npos) name = name.substr(colon + 2);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

namespace {

std::optional<num::Digest> digest_from_hex(std::string_view text) {
  if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  num::Digest d;
  std::from_chars(text.data(), text.data() + 16, d.high, 16);
  std::from_chars(text.data() + 16, text.data() + 32, d.low, 16);
  return d;
}

}  // namespace

Result<DigestLog> DigestLog::from_json(const io::Json& json, const std::string& name) {
  DigestLog log;
  ZU_TRY_ASSIGN(const io::Fields fields, io::Fields::of(json, name));
  ZU_TRY_ASSIGN(const io::Json* entries, fields.array("digests"));
  for (const io::Json& entry : *entries) {
    ZU_TRY_ASSIGN(const io::Fields e, io::Fields::of(entry, name + ": digests"));
    ZU_TRY_ASSIGN(const int64_t sequence, e.integer("sequence", 0, INT64_MAX));
    ZU_TRY_ASSIGN(const int64_t position, e.integer("position", 0, INT64_MAX));
    ZU_TRY_ASSIGN(const std::string hex, e.string("xxh3"));
    const auto digest = digest_from_hex(hex);
    if (!digest) return e.error("xxh3", fmt::format("{} is not 32 lower-case hexadecimal digits", in_quotes(hex)));
    if (!log.digests.emplace(Key{sequence, position}, *digest).second)
      return e.error("position", fmt::format("sequence {}, position {} stands twice", sequence, position));
  }
  if (fields.has("tokens")) {
    ZU_TRY_ASSIGN(const io::Json* sequences, fields.array("tokens"));
    for (const io::Json& tokens : *sequences) {
      ZU_TRY_ASSIGN(const std::vector<int64_t> ids, io::integers_of(tokens, name + ": tokens", 0, INT32_MAX));
      log.tokens.emplace_back(ids.begin(), ids.end());
    }
  }
  if (fields.has("kernels")) {
    ZU_TRY_ASSIGN(log.kernels, fields.strings("kernels"));
  }
  return log;
}

namespace {

// One group of sequences that run together, from their prompts to their last token.
class GroupRun {
 public:
  GroupRun(Engine& engine, const Workload& work, const RunConfig& config, DigestLog& log) : engine_(engine), work_(work), config_(config), log_(log) {}

  void trace(const engine::TraceFn& trace) {
    engine_.set_trace([this, &trace](engine::TracePoint p) {
      p.sequence = member(p.sequence).index;
      trace(p);
    });
  }

  Status run(size_t first, size_t count) {
    members_.clear();
    for (size_t i = first; i < first + count; ++i) {
      Member m{static_cast<int64_t>(i), engine_.open_sequence()};
      m.done = engine_.reuse_prefix(m.id, work_.prompts[i]);
      members_.push_back(m);
    }
    Status status = steps();
    if (!status) return status;  // a fault has closed the sequences
    for (const Member& m : members_) engine_.close_sequence(m.id);
    return {};
  }

 private:
  struct Member {
    int64_t index, id;
    int64_t done = 0;   // prompt tokens forwarded
    int32_t next = -1;  // the greedy token to forward
    int64_t generated = 0;
    int64_t share = 0;  // prompt tokens in this pass
  };

  Member& member(int64_t id) {
    return *std::find_if(members_.begin(), members_.end(), [&](const Member& x) { return x.id == id; });
  }

  Status steps() {
    const int64_t share = std::max<int64_t>(1, engine_.options().max_rows / static_cast<int64_t>(members_.size()));
    for (;;) {
      if (interrupt_requested()) return interrupted();
      std::vector<Engine::Chunk> chunks;
      for (Member& m : members_) {
        const std::vector<int32_t>& prompt = work_.prompts[static_cast<size_t>(m.index)];
        const int64_t left = static_cast<int64_t>(prompt.size()) - m.done;
        m.share = std::min({left, config_.chunk == 0 ? left : config_.chunk, share});
        if (m.share > 0)
          chunks.push_back({m.id, std::span(prompt).subspan(static_cast<size_t>(m.done), static_cast<size_t>(m.share)), Engine::Want::kAll});
        else if (m.generated < work_.decode_tokens)
          chunks.push_back({m.id, std::span(&m.next, 1), Engine::Want::kAll});
      }
      if (chunks.empty()) return {};
      ZU_TRY(engine_.forward(chunks, [&](const engine::LogitsBlock& block) { return record(block); }));
      for (Member& m : members_) m.done += m.share;
    }
  }

  Status record(const engine::LogitsBlock& block) {
    Member& m = member(block.sequence);
    const int64_t vocab = engine_.config().vocab;
    for (int64_t r = 0; r < block.rows; ++r) {
      const float* logits = block.row(r);
      const int64_t position = block.first_position + r;
      log_.digests[{m.index, position}] = num::digest_of(std::span(logits, static_cast<size_t>(vocab)));
      if (position + 1 < static_cast<int64_t>(work_.prompts[static_cast<size_t>(m.index)].size())) continue;
      const int64_t chosen = choose(logits, position, m.index);
      if (chosen < 0) return answer_is_no(fmt::format("NaN or infinity among the logits at position {} of sequence {}", position, m.index));
      m.next = static_cast<int32_t>(chosen);
      if (m.generated < work_.decode_tokens) log_.tokens[static_cast<size_t>(m.index)].push_back(m.next);
      ++m.generated;
    }
    return {};
  }

  int64_t choose(const float* logits, int64_t position, int64_t sequence) {
    const int64_t vocab = engine_.config().vocab;
    if (work_.sampling.temperature > 0)
      return sampler_.draw(logits, vocab, work_.sampling, static_cast<uint32_t>(position), static_cast<uint64_t>(sequence));
    ops::argmax::Args best{logits, vocab};
    engine_.kernels().argmax.run(best);
    return best.index;
  }

  Engine& engine_;
  const Workload& work_;
  const RunConfig& config_;
  DigestLog& log_;
  std::vector<Member> members_;
  ops::sample::Sampler sampler_{engine_.config().vocab};
};

int64_t longest(const Workload& work) {
  size_t longest = 1;
  for (const auto& p : work.prompts) longest = std::max(longest, p.size());
  return static_cast<int64_t>(longest) + work.decode_tokens;
}

}  // namespace

Result<DigestLog> run_digests(const model::QuantizedModel& model, const Workload& work, const RunConfig& config, engine::Plant plant,
                              engine::Exchange* exchange, const engine::TraceFn& trace) {
  const int64_t length = longest(work), page = engine::kPagePositions;
  if (length > model.config().max_positions)
    return bad_input(fmt::format("the workload needs {} positions of a sequence; the model has {}", length, model.config().max_positions));
  if (trace && config.device >= 0) return usage_error("what ops write can be traced on the processor only");
  const int64_t per_sequence = (length + page - 1) / page * page;
  const auto live = static_cast<int64_t>(config.prefix_cache ? std::max<size_t>(work.prompts.size(), 1) * 2 : static_cast<size_t>(config.batch));
  engine::EngineOptions options;
  options.kernel = config.kernel;
  options.threads = config.threads;
  options.device = config.device;
  options.graphs = config.graphs;
  options.ranks = exchange ? 1 : config.ranks;
  options.exchange = exchange;
  options.max_rows = std::clamp<int64_t>(length * config.batch, config.batch, 1024);
  options.max_context = length;
  options.max_total_positions = per_sequence * std::max<int64_t>(live, config.batch);
  options.prefix_cache = config.prefix_cache;
  options.plant = plant;
  ZU_TRY_ASSIGN(const std::unique_ptr<Engine> engine, Engine::create(model, options));
  DigestLog log;
  log.kernels = engine->kernel_names();
  for (int pass = 0; pass < (config.prefix_cache ? 2 : 1); ++pass) {
    log.digests.clear();
    log.tokens.assign(work.prompts.size(), {});
    GroupRun group(*engine, work, config, log);
    if (trace && pass == (config.prefix_cache ? 1 : 0)) group.trace(trace);
    for (size_t first = 0; first < work.prompts.size(); first += static_cast<size_t>(config.batch))
      ZU_TRY(group.run(first, std::min(static_cast<size_t>(config.batch), work.prompts.size() - first)));
  }
  if (engine->on_device() != nullptr) log.graph_nodes = engine->on_device()->graph_nodes();
  return log;
}

LogDifference compare(const DigestLog& a, const DigestLog& b) {
  LogDifference d;
  for (const auto& [key, digest] : a.digests) {
    const auto it = b.digests.find(key);
    if (it == b.digests.end()) continue;
    ++d.compared;
    if (it->second == digest) continue;
    if (d.differing++ == 0) d.first = key;
  }
  d.tokens_equal = a.tokens == b.tokens;
  return d;
}

}  // namespace zeroulp::verify
