// What every op of a forward pass wrote, row by row: for finding the first op whose bits differ between two runs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace zeroulp::engine {

// In the order of computing. All values are bf16, the head's fp32.
enum class TraceOp {
  kEmbedding,  // layer 0
  kInputNorm,
  kQ,
  kK,
  kV,
  kQRope,  // with QK-norm, where the model has it
  kKRope,
  kAttention,
  kO,
  kAttentionResidual,
  kPostNorm,
  kGate,
  kUp,
  kSiluMul,
  kDown,
  kMlpResidual,
  kFinalNorm,  // layer: the number of layers, here and below
  kHead,       // logits of the whole vocabulary
};
inline constexpr std::array<std::string_view, 18> kTraceOpNames = {
    "embedding", "input norm", "q_proj", "k_proj", "v_proj", "q after RoPE", "k after RoPE", "attention", "o_proj", "residual after attention",
    "post norm", "gate_proj", "up_proj", "silu_mul", "down_proj", "residual after MLP", "final norm", "head"};

// One row of one op's output. With several tensor-parallel ranks the first one's part: what is sharded is then narrower,
// but for the logits, which every rank has whole.
struct TracePoint {
  int64_t layer;
  TraceOp op;
  int64_t sequence, position;
  int64_t width;
  const uint16_t* values;         // null: the head's
  const float* logits = nullptr;  // the head's
  std::span<const std::byte> bytes() const {
    return values != nullptr ? std::as_bytes(std::span(values, static_cast<size_t>(width))) : std::as_bytes(std::span(logits, static_cast<size_t>(width)));
  }
};
using TraceFn = std::function<void(const TracePoint&)>;

}  // namespace zeroulp::engine
