// bench_engine MODEL CELL...: speed of the whole engine, as one JSON object on standard output. bench/cpu.py drives it and believes a time only
// when the cell's digest is the reference kernels'. A cell is
//
//   prefill:N    N tokens of an empty sequence, the last one's logits
//   decode:N     one token a step behind N others
//   batch:B      one token a step of B sequences that have 32 tokens each
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "args.h"
#include "base/text.h"
#include "engine/engine.h"
#include "num/digest.h"
#include "num/philox.h"

namespace zeroulp::bench {
namespace {

using engine::Engine;
using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point a, Clock::time_point b) { return std::chrono::duration<double>(b - a).count(); }

struct Options {
  std::string model, kernel;
  int64_t threads = 1, repeats = 3, steps = 32, max_rows = 512;
  std::vector<std::string> cells;
};

struct Cell {
  std::string name;
  int64_t before = 0, prompt = 0, batch = 1, steps = 0;
};

Result<Cell> cell_of(const std::string& text, int64_t steps) {
  const size_t colon = text.find(':');
  int64_t n = -1;
  if (colon != std::string::npos) std::from_chars(text.data() + colon + 1, text.data() + text.size(), n);
  const std::string kind = text.substr(0, colon);
  if (n >= 1 && kind == "prefill") return Cell{text, 0, n, 1, 0};
  if (n >= 0 && kind == "decode") return Cell{text, std::max<int64_t>(n, 1), 0, 1, steps};
  if (n >= 1 && n <= 256 && kind == "batch") return Cell{text, 32, 0, n, steps};
  return usage_error(fmt::format("'{}' is no cell; prefill:N, decode:N and batch:B are", text));
}

// The tokens depend on their index alone, so that every kernel and every run computes the same.
std::vector<int32_t> tokens_of(const Cell& cell, int64_t sequence, int64_t vocab) {
  num::PhiloxStream random(7, static_cast<uint64_t>(sequence));
  std::vector<int32_t> tokens(static_cast<size_t>(cell.before + cell.prompt + cell.steps));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab)));
  return tokens;
}

// One cell, run once: seconds of the prompt, or of each step, and the digest of all logits on the way.
class Runner {
 public:
  Runner(Engine& engine, const Cell& cell) : engine_(engine), cell_(cell) {
    for (int64_t s = 0; s < cell.batch; ++s) sequences_.push_back({engine.open_sequence(), 0, tokens_of(cell, s, engine.config().vocab)});
  }
  ~Runner() {
    for (const Sequence& s : sequences_) engine_.close_sequence(s.id);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Status run() {
    for (Sequence& s : sequences_) ZU_TRY(prefill(s, cell_.before));
    if (cell_.prompt > 0) {
      const Clock::time_point start = Clock::now();
      ZU_TRY(prefill(sequences_.front(), cell_.prompt));
      seconds.push_back(seconds_between(start, logits_at_));
    }
    for (int64_t i = 0; i < cell_.steps; ++i) ZU_TRY(step());
    return {};
  }

  std::vector<double> seconds;
  std::string digest() const { return num::digest_of(std::span<const uint64_t>(digests_)).hex(); }

 private:
  struct Sequence {
    int64_t id, at;
    std::vector<int32_t> tokens;
    std::span<const int32_t> take(int64_t count) {
      at += count;
      return std::span(tokens).subspan(static_cast<size_t>(at - count), static_cast<size_t>(count));
    }
  };

  Status prefill(Sequence& s, int64_t count) {
    for (int64_t left = count; left > 0;) {
      const int64_t part = std::min(left, engine_.options().max_rows);
      left -= part;
      ZU_TRY(forward({{s.id, s.take(part), left == 0 ? Engine::Want::kLast : Engine::Want::kNone}}));
    }
    return {};
  }
  Status step() {
    std::vector<Engine::Chunk> chunks;
    for (Sequence& s : sequences_) chunks.push_back({s.id, s.take(1), Engine::Want::kLast});
    const Clock::time_point start = Clock::now();
    ZU_TRY(forward(chunks));
    seconds.push_back(seconds_between(start, logits_at_));
    return {};
  }
  // Digests are taken after the last logits came, so that they are in no time.
  Status forward(const std::vector<Engine::Chunk>& chunks) {
    std::vector<engine::LogitsBlock> blocks;
    ZU_TRY(engine_.forward(chunks, [&](const engine::LogitsBlock& block) {
      logits_at_ = Clock::now();
      blocks.push_back(block);  // at most Decoder::kHeadRows sequences: the logits stand until the next pass
      return Status{};
    }));
    for (const engine::LogitsBlock& block : blocks) {
      const num::Digest d = num::digest_of(std::span(block.logits, static_cast<size_t>(engine_.config().vocab)));
      digests_.insert(digests_.end(), {d.high, d.low});
    }
    return {};
  }

  Engine& engine_;
  const Cell& cell_;
  std::vector<Sequence> sequences_;
  std::vector<uint64_t> digests_;
  Clock::time_point logits_at_;
};

// What a token costs in the layers' linears: weights, each a product of int16; and products of bytes, two for a weight where inputs have 15 bits.
struct LayerWork {
  int64_t weights = 0, products = 0;
};
LayerWork layer_work(const model::QuantizedModel& model) {
  LayerWork work;
  for (const model::QuantizedLayer& layer : model.layers())
    for (const model::QuantizedLinear& l : layer.linears) {
      work.weights += l.n * l.k;
      work.products += l.n * l.k * (l.width == 15 ? 2 : 1);
    }
  return work;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

Result<std::string> run(const Options& o) {
  const Clock::time_point start = Clock::now();
  std::vector<Cell> cells;
  engine::EngineOptions e;
  e.kernel = o.kernel;
  e.threads = static_cast<int>(o.threads);
  e.max_rows = o.max_rows;
  e.max_context = e.max_total_positions = 0;
  for (const std::string& text : o.cells) {
    ZU_TRY_ASSIGN(cells.emplace_back(), cell_of(text, o.steps));
    const Cell& c = cells.back();
    const int64_t pages = (c.before + c.prompt + c.steps + engine::kPagePositions - 1) / engine::kPagePositions;
    e.max_context = std::max(e.max_context, pages * engine::kPagePositions);
    e.max_total_positions = std::max(e.max_total_positions, c.batch * pages * engine::kPagePositions);
  }
  ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o.model));
  ZU_TRY_ASSIGN(const std::unique_ptr<Engine> engine, Engine::create(model, e));
  const double load = seconds_between(start, Clock::now());
  const Cell first_cell{"", 0, 1, 1, 0};
  {
    Runner first(*engine, first_cell);
    ZU_TRY(first.run());
  }
  const double first_token = seconds_between(start, Clock::now());
  const LayerWork work = layer_work(model);
  std::string out = fmt::format("{{\"identity\": \"{}\", \"kernels\": \"{}\", \"threads\": {}, \"weight_bytes\": {}, \"layer_weights\": {}, \"layer_products\": {}, \"load_s\": {}, \"first_token_s\": {}",
                                model.identity(), fmt::join(engine->kernels().names(), " "), o.threads, model.weight_bytes(), work.weights,
                                work.products, load,
                                first_token);
  out += ", \"cells\": [";
  for (const Cell& cell : cells) {
    std::vector<double> seconds;
    std::string digest;
    for (int64_t i = 0; i < o.repeats; ++i) {
      Runner runner(*engine, cell);
      ZU_TRY(runner.run());
      seconds.insert(seconds.end(), runner.seconds.begin(), runner.seconds.end());
      if (!digest.empty() && digest != runner.digest()) return answer_is_no(fmt::format("{}: two runs of the same tokens differ", cell.name));
      digest = runner.digest();
    }
    out += fmt::format("{}\n {{\"cell\": \"{}\", \"tokens\": {}, \"digest\": \"{}\", \"seconds\": [{}]}}", &cell == cells.data() ? "" : ",", cell.name,
                       cell.prompt > 0 ? cell.prompt : cell.batch, digest, fmt::join(seconds, ", "));
  }
  return out + fmt::format("],\n \"peak_resident_bytes\": {}}}\n", peak_resident_bytes());
}

}  // namespace
}  // namespace zeroulp::bench

int main(int argc, char** argv) {
  using namespace zeroulp;
  bench::Options o;
  cli::Args args("bench_engine", "Time prefill and decode of a quantised model, with a digest of the logits.",
                 {"bench_engine models/smollm2-w8a15 prefill:512 decode:0 batch:8 --threads 2"});
  args.positional("MODEL", o.model, "folder of a quantised model");
  args.positional("CELL", o.cells, "prefill:N, decode:N, batch:B");
  args.option("--kernel", o.kernel, "force a variant");
  args.option("--threads", o.threads, "threads", 1, 1024);
  args.option("--repeats", o.repeats, "runs of each cell", 1, 1000);
  args.option("--steps", o.steps, "steps of decode and batch cells", 1, 1 << 20);
  args.option("--max-rows", o.max_rows, "tokens of one pass at most", 1, 1 << 20);
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Result<std::string> text = bench::run(o);
  if (!text) {
    fmt::print(stderr, "bench_engine: {}\n", text.error().text);
    return static_cast<int>(text.error().code);
  }
  fmt::print("{}", *text);
  return std::fflush(stdout) == 0 ? 0 : 1;
}
