// Decoding and prefill on a GPU at the shapes of real models, weights from a seed: bench_gpu [SHAPE...] [--bits 8|15] [--context N] [--no-graphs] [--kernel NAME] [--json FILE].
// A decoding step is the replay of its graph; the floor is the bytes of the linears' weights and of the KV cache at the bandwidth that this
// GPU was just measured to read at. Before a time is taken the tokens are compared with those of another batch size.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"
#include "io/json.h"
#include "report/json.h"
#include "report/table.h"
#include "shapes.h"

namespace zeroulp {
namespace {

using engine::Engine;
using bench::NamedShape;
using model::SeededShape;
using Clock = std::chrono::steady_clock;

struct Row {
  std::string name;
  int width = 15;
  int64_t weight_bytes = 0, kv_bytes = 0, context = 0;
  size_t nodes = 0;
  double prefill_tokens_per_second = 0, step_ms = 0, floor_ms = 0, wall_ms = 0;
};

// Tokens after a prompt of `context` tokens, decoded `batch` sequences at a time (all with the same prompt), and how long the prefill took.
Result<std::vector<int32_t>> decode(Engine& engine, int64_t context, int64_t steps, int64_t batch, double* prefill_seconds, double* step_seconds) {
  std::vector<int64_t> ids;
  for (int64_t b = 0; b < batch; ++b) ids.push_back(engine.open_sequence());
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < context; ++i) prompt.push_back(static_cast<int32_t>(i * 7919 % (engine.config().vocab - 1)));
  const auto rows = engine.options().max_rows;
  int32_t next = 0;
  const auto begun = Clock::now();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t at = 0; at < context; at += rows) {
      const int64_t count = std::min(rows, context - at);
      const Engine::Chunk chunk{ids[static_cast<size_t>(b)], std::span(prompt).subspan(static_cast<size_t>(at), static_cast<size_t>(count)),
                                at + count == context ? Engine::Want::kLast : Engine::Want::kNone};
      const Engine::Draw draw{};
      ZU_TRY_ASSIGN(const std::vector<int64_t> tokens, engine.forward_and_draw({&chunk, 1}, {&draw, 1}));
      next = static_cast<int32_t>(tokens[0]);
    }
  *prefill_seconds = std::chrono::duration<double>(Clock::now() - begun).count() / static_cast<double>(batch);
  std::vector<int32_t> out = {next};
  const auto decoding = Clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Engine::Chunk> chunks;
    for (const int64_t id : ids) chunks.push_back({id, {&out.back(), 1}, Engine::Want::kLast});
    const std::vector<Engine::Draw> draws(chunks.size());
    ZU_TRY_ASSIGN(const std::vector<int64_t> tokens, engine.forward_and_draw(chunks, draws));
    if (std::count(tokens.begin(), tokens.end(), tokens[0]) != batch) return answer_is_no("sequences of one batch differ");
    out.push_back(static_cast<int32_t>(tokens[0]));
  }
  *step_seconds = std::chrono::duration<double>(Clock::now() - decoding).count() / static_cast<double>(steps);
  for (const int64_t id : ids) engine.close_sequence(id);
  return out;
}

Result<Row> measure(const NamedShape& n, int width, int64_t context, double bandwidth, const std::string& kernel, bool graphs) {
  SeededShape s = n.shape;
  s.distinct_layers = 1;
  s.width = width;
  s.key_width = width;
  const model::QuantizedModel m = model::make_seeded(s, 1);
  engine::EngineOptions options;
  options.device = 0;
  options.graphs = graphs;
  options.kernel = kernel;
  options.threads = 4;
  options.max_rows = 1024;
  options.max_context = context + 128;
  options.max_total_positions = 3 * (context + 256);
  ZU_TRY_ASSIGN(const std::unique_ptr<Engine> engine, Engine::create(m, options));
  Row row{n.name, width, 0, 0, context, 0, 0, 0, 0, 0};
  double seconds = 0, step = 0, unused = 0;
  ZU_TRY_ASSIGN(const std::vector<int32_t> pair, decode(*engine, context, 8, 2, &seconds, &step));
  ZU_TRY_ASSIGN(const std::vector<int32_t> alone, decode(*engine, context, 8, 1, &seconds, &step));
  if (pair != alone) return answer_is_no(fmt::format("{}: other tokens at another batch size", n.name));
  if (graphs) {
    ZU_TRY_ASSIGN(row.step_ms, engine->on_device()->replay_milliseconds(50));
  }
  ZU_TRY_ASSIGN(const std::vector<int32_t> again, decode(*engine, context, 32, 1, &unused, &step));
  if (again[1] != alone[1]) return answer_is_no(fmt::format("{}: other tokens the second time", n.name));
  row.wall_ms = 1e3 * step;
  row.prefill_tokens_per_second = static_cast<double>(context) / seconds;
  row.nodes = engine->on_device()->graph_nodes().size();
  row.weight_bytes = engine->on_device()->weight_bytes();
  row.kv_bytes = s.layers * s.kv_heads * context * (s.head_dim * (width == 15 ? 3 : 2) + 5);
  row.floor_ms = 1e3 * static_cast<double>(row.weight_bytes + row.kv_bytes) / bandwidth;
  return row;
}

Result<int> run(int argc, char** argv) {
  report::Report report("bench_gpu");
  std::vector<std::string> names;
  std::string json, kernel;
  int64_t context = 2048;
  int bits = 0;  // both
  bool graphs = true;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--json" && i + 1 < argc) json = argv[++i];
    else if (a == "--kernel" && i + 1 < argc) kernel = argv[++i];
    else if (a == "--no-graphs") graphs = false;
    else if (a == "--bits" && i + 1 < argc) bits = std::atoi(argv[++i]);
    else if (a == "--context" && i + 1 < argc) context = std::atoll(argv[++i]);
    else names.push_back(a);
  }
  if (context < 1 || context > 8000) return usage_error("--context is 1 to 8000");
  ZU_TRY(device::use(0));
  ZU_TRY_ASSIGN(const device::Properties gpu, device::properties(0));
  ZU_TRY_ASSIGN(const double bandwidth, device::read_bandwidth(int64_t{4} << 30, 15));
  fmt::print("{}: reads {:.2f} TB/s\n", gpu.name, bandwidth / 1e12);
  report::Table table({{"shape"}, {"bits"}, {"context"}, {"graph ms/step"}, {"floor ms"}, {"of floor"}, {"wall ms/step"}, {"nodes"}, {"prefill tokens/s"}});
  report.body["gpu"] = {{"name", gpu.name}, {"driver", gpu.driver}, {"read_bytes_per_second", bandwidth}};
  for (const NamedShape& n : bench::all_shapes()) {
    if (!names.empty() && std::find(names.begin(), names.end(), n.name) == names.end()) continue;
    for (const int width : {15, 8}) {
      if (bits != 0 && bits != width) continue;
      ZU_TRY_ASSIGN(const Row r, measure(n, width, context, bandwidth, kernel, graphs));
      table.row({r.name, std::to_string(r.width), std::to_string(r.context), fmt::format("{:.3f}", r.step_ms), fmt::format("{:.3f}", r.floor_ms),
                 fmt::format("{:.0f} %", 100 * r.floor_ms / r.step_ms), fmt::format("{:.3f}", r.wall_ms), std::to_string(r.nodes),
                 fmt::format("{:.0f}", r.prefill_tokens_per_second)});
      fmt::print(stderr, "{} {} bits: {:.3f} ms/step, floor {:.3f}, wall {:.3f}, prefill {:.0f} tokens/s\n", r.name, r.width, r.step_ms, r.floor_ms, r.wall_ms,
                 r.prefill_tokens_per_second);
      report.body["rows"].push_back({{"shape", r.name}, {"width", r.width}, {"context", r.context}, {"weight_bytes", r.weight_bytes}, {"kv_bytes", r.kv_bytes},
                                     {"graph_ms_per_step", r.step_ms}, {"wall_ms_per_step", r.wall_ms}, {"floor_ms", r.floor_ms}, {"graph_nodes", r.nodes},
                                     {"prefill_tokens_per_second", r.prefill_tokens_per_second}});
    }
  }
  fmt::print("{}", table.text());
  if (!json.empty()) ZU_TRY(report.write(json, true));
  return 0;
}

}  // namespace
}  // namespace zeroulp

int main(int argc, char** argv) {
  const zeroulp::Result<int> code = zeroulp::run(argc, argv);
  if (code) return *code;
  fmt::print(stderr, "bench_gpu: {}\n", code.error().text);
  return static_cast<int>(code.error().code);
}
