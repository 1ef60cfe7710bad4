// Epilogues of two widely used stacks, which are not the contract's: material for the experiment on scale orders (src/verify/foreign.h).
// (vLLM CUTLASS: csrc/cutlass_extensions/epilogue/scaled_mm_epilogues_c2x.hpp and _c3x.hpp; vLLM Triton: triton_scaled_mm.py.)
#pragma once

#include <span>
#include <string_view>

#include "ops/linear_s8/contract.h"

namespace zeroulp::ops::linear_s8 {

enum class EpilogueOrder {
  kCutlass,  // bf16(sA * (sB * f)), with bias bf16(fma(sA, sB * f, bias)): weight scale first, one rounding
  kTriton    // bf16(sB * (sA * f)), with bias bf16(bf16(..) + bf16(bias)): activation scale first, bias added after the rounding
};

// From the exact sum, as fp32, to fp32 without bias (LM head) or to bf16.
ZU_HD inline float foreign_f32(EpilogueOrder order, float f, float sa, float sb) {
  return order == EpilogueOrder::kCutlass ? sa * (sb * f) : sb * (sa * f);
}
ZU_HD inline uint16_t foreign_bf16(EpilogueOrder order, float f, float sa, float sb, const float* bias) {
  if (bias == nullptr) return num::float_to_bf16(foreign_f32(order, f, sa, sb));
  if (order == EpilogueOrder::kCutlass) return num::float_to_bf16(std::fma(sa, sb * f, *bias));
  const uint16_t rounded = num::float_to_bf16(foreign_f32(order, f, sa, sb));
  return num::float_to_bf16(num::bf16_to_float(rounded) + num::bf16_to_float(num::float_to_bf16(*bias)));
}

// store() of contract.h with that order; not for partial sums.
ZU_HD inline void foreign_store(EpilogueOrder order, const Args& a, int64_t row, int64_t channel, int64_t acc) {
  const int64_t at = row * a.y_stride + channel;
  const float f = num::i2f(acc), sa = a.row_scales[row], sb = a.channel_scales[channel];
  if (a.output == Output::kF32)
    static_cast<float*>(a.y)[at] = foreign_f32(order, f, sa, sb);
  else
    static_cast<uint16_t*>(a.y)[at] = foreign_bf16(order, f, sa, sb, a.bias ? a.bias + channel : nullptr);
}

// Kernels on a GPU whose epilogues have these orders, for 8-bit codes; empty in a build without CUDA.
struct ForeignPair {
  std::string_view name;  // what the kernels are: "CUTLASS and Triton", "cuBLASLt and an epilogue"
  OnDevice cutlass, triton;
};
std::span<const ForeignPair> foreign_pairs();

}  // namespace zeroulp::ops::linear_s8
