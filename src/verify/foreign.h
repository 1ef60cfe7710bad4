// What scale order does to bits: the epilogues of two widely used stacks, on the same exact sums, under arbitrary and power-of-two scales.
// (vLLM CUTLASS: csrc/cutlass_extensions/epilogue/scaled_mm_epilogues_c2x.hpp and _c3x.hpp; vLLM Triton: triton_scaled_mm.py.)
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/generate.h"
#include "model/quantized_model.h"

namespace zeroulp::verify {

enum class EpilogueOrder {
  kCutlass,  // bf16(sA * (sB * f)), with bias bf16(fma(sA, sB * f, bias)): weight scale first, one rounding
  kTriton    // bf16(sB * (sA * f)), with bias bf16(bf16(..) + bias): activation scale first, bias added after the rounding
};
inline constexpr std::string_view kOrderNames[] = {"CUTLASS", "Triton"};

// A linear with that epilogue; sums by the fastest kernel that runs here.
ops::linear_s8::Fn* foreign_linear(EpilogueOrder order);

// Test-only copies of a model with 8-bit activations everywhere: the scales as they are ("w8a8-free" when they are arbitrary), or codes and
// scales re-quantised from the int8 codes to power-of-two scales (the least power that does not clip). The second changes what the model
// computes by a little more than quantising from the original weights would; equality of bits does not depend on that.
Result<model::QuantizedModel> with_8bit_activations(const model::QuantizedModel& model, bool power_of_two);

// bf16 outputs that differ between the two orders, by distance in bf16 spacings: [0] equal, [1] one, ..., the last: that or more.
inline constexpr size_t kSpacingBins = 6;
struct SpacingHistogram {
  std::array<int64_t, kSpacingBins> count{};
  int64_t total() const;
  int64_t differing() const { return total() - count[0]; }
  void add(int64_t distance);
};

struct OrderComparison {
  // [0] linears without bias, [1] with bias.
  std::array<SpacingHistogram, 2> arbitrary, power_of_two;
  int64_t inputs = 0;  // rows of linear inputs, captured from the model
};
// Runs `tokens` through the 8-bit model and compares both epilogues on every linear's captured input.
Result<OrderComparison> compare_orders(const model::QuantizedModel& arbitrary, const model::QuantizedModel& power_of_two,
                                       const std::vector<int32_t>& tokens, int threads);

// Greedy generations under both orders: for each prompt the first token that differs, -1: none.
struct Divergence {
  std::vector<int64_t> first_difference;
  int64_t tokens = 0;  // per prompt
  int64_t prompts_that_part() const;
};
Result<Divergence> compare_generations(const model::QuantizedModel& model, const std::vector<std::vector<int32_t>>& prompts, int64_t tokens, int threads);

}  // namespace zeroulp::verify
