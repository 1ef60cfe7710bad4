// The integer engine: sequences with a paged KV cache, forward passes over any mix of them, on one or more tensor-parallel ranks.
// No bit of a sequence's logits depends on its neighbours, on how its tokens are cut into chunks, on threads, ranks, kernels or on whether
// its prefix came from the cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/fp_env.h"
#include "engine/decoder.h"
#include "engine/device_decoder.h"
#include "engine/kv_pages.h"
#include "engine/logits.h"
#include "model/quantized_model.h"

namespace zeroulp::engine {

// Tensor-parallel ranks inside one process: each has threads and buffers of its own.
inline constexpr int kMaxRanks = 64;

struct EngineOptions {
  std::string kernel;                   // see ops::select_kernels and ops::select_device_kernels
  int device = -1;                      // a GPU's index; -1: this processor
  bool graphs = true;                   // on a GPU: a decoding step is one graph
  int threads = 1;                      // of each rank
  int ranks = 1;                        // tensor-parallel ranks as threads of this process
  Exchange* exchange = nullptr;         // given: this process is one rank of it (MPI), and `ranks` must be 1
  int64_t max_rows = 512;               // tokens of one forward pass, all sequences together
  int64_t max_context = 4096;           // positions of one sequence; at most the model's
  int64_t max_total_positions = 8192;   // of all sequences: the size of the KV cache, in whole pages of 128
  bool prefix_cache = false;
  Plant plant = Plant::kNone;
  ops::linear_s8::Fn* linear = nullptr;  // given: replaces the chosen linear (foreign epilogues under study); named "foreign"
  std::function<void(ops::Kernels&)> adjust;  // given: changes the chosen kernels of the processor (faults under study)
  const ops::linear_s8::OnDevice* device_linear = nullptr;  // the same on a GPU, under its own name
};

class Engine {
 public:
  // The model must outlive the engine. Memory is reserved here: with one rank, nothing is allocated by opening, forking and closing sequences
  // (kSequences of them at a time, or as many as there are pages if these are fewer) nor by forward passes.
  static Result<std::unique_ptr<Engine>> create(const model::QuantizedModel& model, const EngineOptions& options);
  ~Engine();

  // Of this processor: what the ops outside the forward pass use.
  const ops::Kernels& kernels() const { return kernels_; }
  // "op=variant" of the forward pass.
  std::vector<std::string> kernel_names() const;
  // On a GPU the first rank, otherwise null.
  DeviceDecoder* on_device() { return on_device_; }
  const EngineOptions& options() const { return options_; }
  const model::ModelConfig& config() const { return model_.config(); }

  static constexpr int64_t kSequences = 1024;

  // A new empty sequence. Ids are never used twice.
  int64_t open_sequence();
  // A new sequence that stands where `id` does. They share the cache until one of them writes to it.
  int64_t fork_sequence(int64_t id);
  void close_sequence(int64_t id);
  int64_t length(int64_t id) const;
  // Takes what the prefix cache has of `prompt` for an empty sequence; the caller then forwards prompt[returned..].
  int64_t reuse_prefix(int64_t id, std::span<const int32_t> prompt);
  int64_t free_positions() const;  // in whole pages

  // The cache of a sequence by blocks of 128 positions (ops/kv_cache/contract.h); `head` is one of the model's KV heads, `block` counts from
  // the sequence's beginning. Not where ranks are processes.
  ops::kv_cache::Layout kv_layout(int64_t layer) const;
  Status read_kv(int64_t id, int64_t layer, int64_t head, int64_t block, std::span<std::byte> to);
  // Lets the empty sequence `id` stand behind `tokens`; `fill` writes every block that they touch.
  using FillBlock = std::function<void(int64_t layer, int64_t head, int64_t block, std::span<std::byte> to)>;
  Status restore_kv(int64_t id, std::span<const int32_t> tokens, const FillBlock& fill);

  enum class Want { kNone, kLast, kAll };
  struct Chunk {
    int64_t sequence;
    std::span<const int32_t> tokens;  // not empty; appended to the sequence
    Want want = Want::kLast;
  };
  // Computes the chunks (distinct sequences) and hands out the wanted logits by ascending chunk and position. Tokens outside the vocabulary,
  // too many rows, a full context or cache are refused before anything is computed. A value outside the contract's ranges gives exit code 1
  // naming token, layer and op; the sequences of that pass are then closed.
  Status forward(std::span<const Chunk> chunks, const LogitsSink& sink);

  // Computes the chunks and chooses a token for each that wants its last logits; -1 for the others. On a GPU the logits stay there.
  // draws[i] is for chunks[i].
  struct Draw {
    ops::sample::Settings settings;
    uint64_t request = 0;
  };
  Result<std::vector<int64_t>> forward_and_draw(std::span<const Chunk> chunks, std::span<const Draw> draws);

  // Calibration: see CaptureFn. One rank only.
  void set_capture(CaptureFn capture);
  // Tells what the first rank's ops write, row by row (final norm and head: of the rows whose logits are wanted). An empty function ends it.
  void set_trace(TraceFn trace);

 private:
  Engine(const model::QuantizedModel& model, const EngineOptions& options, const ops::Kernels& kernels);
  Status make_ranks();
  Status compute(std::span<const Chunk> chunks);
  struct Open {
    int64_t id;
    std::unique_ptr<KvPages::Sequence> sequence;
    int64_t pass = -1;  // the last one that had a chunk of it
  };
  std::vector<Open>::iterator find(int64_t id);
  std::vector<Open>::const_iterator find(int64_t id) const;
  std::unique_ptr<KvPages::Sequence> make_sequence() const;
  Status check(std::span<const Chunk> chunks);
  void make_plan(std::span<const Chunk> chunks);
  void trace_rows(int64_t layer, TraceOp op, int64_t rows, int64_t width, const uint16_t* values) const;
  void trace_logits(int64_t rows, const float* logits) const;
  size_t chunk_of(int64_t row) const;
  // Runs work(rank) on every rank of this process, each on a thread of its own. The first rank's error, or another's.
  template <class Work>
  Status on_ranks(const Work& work);
  Status hand_out(const LogitsSink& sink, std::span<const Chunk> chunks);
  Status fault_error(const Fault& fault, std::span<const Chunk> chunks);

  const model::QuantizedModel& model_;
  EngineOptions options_;
  ops::Kernels kernels_;
  KvPages pages_;
  RopeTable rope_;
  std::vector<Open> open_;  // ascending ids
  std::vector<std::unique_ptr<KvPages::Sequence>> spare_;
  int64_t next_id_ = 0, passes_ = 0;
  std::unique_ptr<LocalGroup> group_;
  std::vector<std::unique_ptr<RankDecoder>> ranks_;
  std::vector<Decoder*> cpu_ranks_;     // the ranks, unless they are on a GPU
  DeviceDecoder* on_device_ = nullptr;  // the first rank, if it is
  ops::DeviceKernels device_kernels_;
  std::unique_ptr<ThreadPool> pool_;    // fills the rotary table
  std::unique_ptr<ops::sample::Sampler> sampler_;
  Plan plan_;
  std::vector<KvPages::Copy> copies_;
  std::vector<int64_t> plan_sequences_;  // per chunk
  int64_t head_first_ = 0;               // of the wanted rows, those that the head is at
  TraceFn trace_;
};

// One sequence from position 0 with the logits of every position, as quality.h's Decode asks for. The engine must outlive it.
std::function<Status(std::span<const int32_t> tokens, const LogitsSink& sink)> decode_with(Engine& engine);

}  // namespace zeroulp::engine
