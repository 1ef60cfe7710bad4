// What every op of a forward pass wrote, row by row: for finding the first op whose bits differ between two runs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

namespace zeroulp::engine {

// In the order of computing. All values are bf16.
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
  kFinalNorm,  // layer: the number of layers
};
inline constexpr std::array<std::string_view, 17> kTraceOpNames = {
    "embedding", "input norm", "q_proj", "k_proj", "v_proj", "q after RoPE", "k after RoPE", "attention", "o_proj", "residual after attention",
    "post norm", "gate_proj", "up_proj", "silu_mul", "down_proj", "residual after MLP", "final norm"};

// One row of one op's output. With several tensor-parallel ranks the first one's part: what is sharded is then narrower.
struct TracePoint {
  int64_t layer;
  TraceOp op;
  int64_t sequence, position;
  int64_t width;
  const uint16_t* values;
};
using TraceFn = std::function<void(const TracePoint&)>;

}  // namespace zeroulp::engine
