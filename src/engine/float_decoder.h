// The reference path: a model's float weights, run with fp32 sums and Hugging Face transformers' rounding points. Quality is measured
// against it; it is not under the contract.
//
// Mode kBf16: weights BF16; every linear's output, both norm steps, cos and sin tables and the three roundings of RoPE, attention output,
// SiLU, products and residual sums are rounded to BF16, as transformers does in torch.bfloat16. Attention follows its default, sdpa
// (engine/float_kernels.h, Softmax), or eager on request. Logits are the fp32 sums of the BF16 hidden state: transformers rounds
// them to BF16, where the two best tie at 3.7 % of positions; round_logits does the same.
// Mode kF32: weights exact, nothing is rounded below fp32; comparable with transformers in torch.float32.
//
// Results depend on no thread count, no instruction set, no block of rows and no chunk of the sequence (engine/sgemm.h, engine/widest.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "engine/float_attention.h"
#include "engine/logits.h"
#include "model/checkpoint.h"
#include "model/config.h"

namespace zeroulp::engine {

// Where weights come from, by Hugging Face's names. q_norm and k_norm may hold one row (head_dim) or one per head.
struct FloatWeights {
  std::function<Result<std::vector<float>>(std::string_view name)> vector;
  std::function<Result<std::vector<float>>(std::string_view name, int64_t begin, int64_t end)> rows;  // of a matrix
  bool bf16 = true;  // every matrix holds BF16 values
};
FloatWeights weights_of(const model::Checkpoint& checkpoint);  // which must outlive it

// The input of one linear, as the linear sees it. Linears that share an input are reported one after another.
struct LinearInput {
  int64_t layer;          // -1 for the head
  std::string_view name;  // "self_attn.q_proj" ... "mlp.down_proj", "lm_head"
  int64_t first_position, rows, k;
  const float* x;  // [rows, k], without gaps; BF16 values in mode kBf16
};
using CaptureSink = std::function<Status(const LinearInput&)>;

// Keys, values and last hidden states of one sequence.
class FloatSequence {
 public:
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }

 private:
  friend class FloatDecoder;
  int64_t capacity_ = 0, length_ = 0;
  std::vector<FloatCache> layers_;
  std::vector<float> hidden_;  // [capacity, hidden], after the final norm
};

class FloatDecoder {
 public:
  enum class Mode { kBf16, kF32 };
  struct Options {
    Mode mode = Mode::kBf16;
    Softmax softmax = Softmax::kFused;
    bool round_logits = false;
    int64_t block_rows = 64;  // rows of one LogitsBlock
  };

  // The pool must outlive the decoder.
  static Result<FloatDecoder> create(const model::Checkpoint& checkpoint, const Options& options, ThreadPool& pool);
  static Result<FloatDecoder> create(const model::ModelConfig& config, const FloatWeights& weights, const Options& options, ThreadPool& pool);
  FloatDecoder(FloatDecoder&&) noexcept;
  FloatDecoder& operator=(FloatDecoder&&) noexcept;
  ~FloatDecoder();

  const model::ModelConfig& config() const;

  // One sequence from position 0, its logits to the sink. `capture`, if given, sees every linear's input; the head runs only with a sink.
  Status forward(std::span<const int32_t> tokens, const LogitsSink& sink, const CaptureSink& capture = nullptr) const;

  // The same in steps.
  FloatSequence start(int64_t capacity) const;
  Status extend(FloatSequence& sequence, std::span<const int32_t> tokens, const CaptureSink& capture = nullptr) const;
  // Logits after positions [first, first + rows): [rows, vocab].
  void logits(const FloatSequence& sequence, int64_t first, int64_t rows, float* out) const;

  // The `count` tokens that follow when each is the likeliest (lowest id of equals). Stop tokens do not stop it.
  Result<std::vector<int32_t>> greedy(std::span<const int32_t> prompt, int64_t count) const;

 private:
  struct Impl;
  explicit FloatDecoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zeroulp::engine
