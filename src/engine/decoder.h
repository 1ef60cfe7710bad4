// One tensor-parallel rank of the integer decoder: straight-line layers under the contract, over rows of any mix of sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "engine/exchange.h"
#include "engine/plant.h"
#include "engine/trace.h"
#include "model/quantized_model.h"
#include "ops/kernels.h"

namespace zeroulp::engine {

// cos and sin of every position, shared by the ranks; filled as positions are reached.
class RopeTable {
 public:
  RopeTable(const model::ModelConfig& config, int64_t max_positions, ops::rope::TableFn* entry);
  void fill_to(int64_t positions, ThreadPool& pool);  // entries [0, positions) are there afterwards
  int64_t filled() const { return filled_; }
  const uint16_t* cos() const { return cos_.data(); }
  const uint16_t* sin() const { return sin_.data(); }

 private:
  ops::rope::TableFn* entry_;
  std::vector<float> frequencies_;
  float factor_;
  int64_t filled_ = 0;
  std::vector<uint16_t> cos_, sin_;
};

// The rows of one forward pass: chunks of consecutive positions, each of one sequence.
struct Plan {
  struct Chunk {
    int64_t first_row = 0, rows = 0;
    int64_t first_position = 0;
    const int32_t* pages = nullptr;  // page indices of the sequence
    int64_t page_count = 0;
  };
  std::vector<Chunk> chunks;
  std::vector<int32_t> tokens, positions;  // per row
  std::vector<int32_t> wanted;             // rows whose logits are wanted, ascending
  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

// The first range error, NaN or Inf that an op met. The last column of a table: what to tell the user.
struct Fault {
  bool any = false;
  int64_t layer = 0;  // config.layers: the final norm and head
  std::string op;
  int64_t row = 0;
  bool interrupted = false;  // Ctrl-C ended the pass early, on all ranks after the same layer
};

// Sees the bf16 input of a linear before it is quantised: calibration. Called on the rank's own thread; x is [rows, k], row stride k.
using CaptureFn = std::function<void(int64_t layer, model::LinearRole role, int64_t rows, int64_t k, const uint16_t* x)>;

// One tensor-parallel rank, wherever it computes. All ranks are called with the same plan.
class RankDecoder {
 public:
  virtual ~RankDecoder() = default;
  // Computes the plan's rows up to the final norm.
  virtual Status forward(const Plan& plan, const RopeTable& rope) = 0;
  // Logits of wanted rows [first, first + count) of the last plan, count <= head_rows(): fp32 [count, vocab] in host memory.
  virtual Result<const float*> head(const Plan& plan, int64_t first, int64_t count) = 0;
  virtual int64_t head_rows() const = 0;
  // Puts the bytes of one page of the cache into another, before the next pass.
  virtual void copy_page(int32_t from, int32_t to) = 0;
  // The KV heads whose cache this rank holds.
  virtual Part kv_heads() const = 0;
  // One block of the cache (ops/kv_cache/contract.h) between passes; `head` counts this rank's. Spans are of the layout's size.
  virtual Status read_block(int32_t page, int64_t layer, int64_t head, std::span<std::byte> to) = 0;
  virtual Status write_block(int32_t page, int64_t layer, int64_t head, std::span<const std::byte> from) = 0;
  // The first fault of any rank since the last call; `any` is the same on all ranks.
  virtual Fault take_fault() = 0;
};

class Decoder : public RankDecoder {
 public:
  using LinearRole = model::LinearRole;
  struct Options {
    int64_t max_rows = 512;
    int64_t max_context = 4096;
    int64_t pages = 64;
    Plant plant = Plant::kNone;
  };
  static constexpr int64_t kHeadRows = 16;  // rows of logits computed at a time

  Decoder(const model::QuantizedModel& model, const ops::Kernels& kernels, Exchange* exchange, int threads, const Options& options);
  ~Decoder() override;

  // Without an exchange these allocate nothing.
  Status forward(const Plan& plan, const RopeTable& rope) override;
  Result<const float*> head(const Plan& plan, int64_t first, int64_t count) override;
  int64_t head_rows() const override { return kHeadRows; }
  void copy_page(int32_t from, int32_t to) override;
  Part kv_heads() const override { return kv_; }
  Status read_block(int32_t page, int64_t layer, int64_t head, std::span<std::byte> to) override;
  Status write_block(int32_t page, int64_t layer, int64_t head, std::span<const std::byte> from) override;
  Fault take_fault() override;

  std::byte* page_block(int32_t page, int64_t layer, int64_t local_head);
  const ops::kv_cache::Layout& layout(int64_t layer) const { return layouts_[static_cast<size_t>(layer)]; }
  int64_t local_kv_heads() const { return kv_.size(); }
  int64_t page_bytes() const { return page_bytes_; }
  ThreadPool& pool() { return pool_; }
  CaptureFn capture;
  // Told what each op wrote: values is [rows, width], dense, one row per row of the plan (or of `head`'s part).
  std::function<void(int64_t layer, TraceOp op, int64_t rows, int64_t width, const uint16_t* values)> trace;

 private:
  struct Buffers;
  struct Quantized {
    const uint16_t* source = nullptr;
    int width = 0;
  };

  void embed(const Plan& plan);
  void attention_part(const Plan& plan, const RopeTable& rope, int64_t layer);
  void store_kv(const Plan& plan, int64_t layer);
  void attend(const Plan& plan, int64_t layer);
  void mlp_part(const Plan& plan, int64_t layer);
  void norm(const uint16_t* x, const uint16_t* weight, uint16_t* y, const Plan& plan);
  void head_norm(uint16_t* x, int64_t heads, const uint16_t* weights, int64_t rows);
  // Quantises x [rows, k] unless the codes at hand are of this x and width already.
  void quantize(const uint16_t* x, int64_t rows, int64_t k, int width, bool sharded, int64_t layer, const char* op);
  // Linears of one input, each to y [rows, part]: this rank's output channels.
  struct Projection {
    const model::QuantizedLinear& linear;
    LinearRole role;
    Part part;
    uint16_t* y;
  };
  void project(std::span<const Projection> projections, const uint16_t* x, int64_t rows, int64_t layer, const char* op);
  // y [rows, n]: this rank has the inputs [part); the exact sums are exchanged.
  void row_linear(const model::QuantizedLinear& linear, Part part, int64_t rows, uint16_t* y);
  // The codes at hand through output channels [part) of a linear.
  ops::linear_s8::Args linear_args(const model::QuantizedLinear& linear, Part part, int64_t rows, ops::linear_s8::Output output, void* y,
                                   int64_t stride) const;
  // Linears of the same rows, shared by the threads as if they were one.
  void run_linears(std::span<const ops::linear_s8::Args> linears);
  void add_residual(const uint16_t* y, int64_t count);
  void note_faults(int64_t flags, int64_t flags_per_row, int64_t layer, const char* op);

  const model::QuantizedModel& model_;
  const model::ModelConfig& config_;
  ops::Kernels kernels_;
  Exchange* exchange_;  // null: one rank
  ThreadPool pool_;
  Options options_;
  Part heads_, kv_, inner_, vocab_;  // this rank's query heads, the KV heads they read, MLP channels and vocabulary
  std::vector<ops::kv_cache::Layout> layouts_;
  std::vector<int64_t> layer_offsets_;
  int64_t page_bytes_ = 0;
  std::unique_ptr<Buffers> b_;
  Quantized at_hand_;
  size_t chunks_ = 0;  // of the plan at hand
  bool stopped_ = false;  // Ctrl-C was seen, by all ranks
  Fault fault_;
};

}  // namespace zeroulp::engine
