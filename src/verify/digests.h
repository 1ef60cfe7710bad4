// Digest logs: what one configuration of the engine computed, position by position, and how two logs compare.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "io/json.h"
#include "num/digest.h"
#include "ops/sample/contract.h"

namespace zeroulp::verify {

// One point of the axes that must not matter.
struct RunConfig {
  std::string kernel;       // see ops::select_kernels
  int threads = 1;
  int batch = 1;            // sequences that are computed together
  int64_t chunk = 0;        // tokens of a sequence per prefill pass; 0: all at once
  int ranks = 1;            // tensor-parallel degree
  int device = -1;            // a GPU's index; -1: the processor
  bool graphs = true;         // on a GPU: decoding steps as graphs
  bool prefix_cache = false;  // with it, prompts are sent twice, and the second time counts
  bool operator==(const RunConfig&) const = default;
  std::string describe() const;
  io::Json to_json() const;
};

inline constexpr int64_t kMaxDecodeTokens = int64_t{1} << 20;

struct Workload {
  std::vector<std::vector<int32_t>> prompts;
  int64_t decode_tokens = 0;  // tokens after each prompt
  ops::sample::Settings sampling;  // how they are chosen: greedily at temperature 0; a sequence's place is its request id
};

// The kernels among a graph's nodes, each once, without namespaces and arguments.
std::vector<std::string> kernels_of_graph(const std::vector<std::string>& nodes);

// Per (sequence, position): XXH3-128 over the logits' little-endian bits, unpadded vocabulary; and the tokens chosen.
struct DigestLog {
  using Key = std::pair<int64_t, int64_t>;
  std::map<Key, num::Digest> digests;
  std::vector<std::vector<int32_t>> tokens;  // per sequence, those generated
  std::vector<std::string> kernels;
  std::vector<std::string> graph_nodes;      // of the last decoding step on a GPU that was one graph
  std::vector<std::string> graph_kernels() const { return kernels_of_graph(graph_nodes); }
  num::Digest combined() const;  // over all entries in order of key
  io::Json to_json() const;  // "digests": [{sequence, position, xxh3}], "tokens", "kernels", "combined"
  static Result<DigestLog> from_json(const io::Json& json, const std::string& name);
};

// Runs the workload. `exchange`: this process is one rank of an MPI launch, and config.ranks its size. `trace` is told what the ops write,
// under the workload's sequence numbers; with the prefix cache only the second time.
Result<DigestLog> run_digests(const model::QuantizedModel& model, const Workload& workload, const RunConfig& config,
                              engine::Plant plant = engine::Plant::kNone, engine::Exchange* exchange = nullptr, const engine::TraceFn& trace = {});

struct LogDifference {
  int64_t compared = 0, differing = 0;
  DigestLog::Key first{-1, -1};  // the first difference by sequence, then position
  bool tokens_equal = true;
  bool holds() const { return differing == 0 && tokens_equal && compared > 0; }
};
// Positions that only one log has (a cached prefix is not computed again) are not compared; nothing in common does not hold.
LogDifference compare(const DigestLog& a, const DigestLog& b);

}  // namespace zeroulp::verify
