// What scale order does to bits: the epilogues of two widely used stacks (ops/linear_s8/foreign.h) on the same exact sums, under arbitrary and
// power-of-two scales. On the CPU both are computed by the rule; on a GPU by real kernels that have them.
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
#include "ops/linear_s8/foreign.h"

namespace zeroulp::verify {

using ops::linear_s8::EpilogueOrder;
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

// [0] linears without bias, [1] with bias.
struct OrderHistograms {
  std::array<SpacingHistogram, 2> arbitrary, power_of_two;
};
struct OrderComparison : OrderHistograms {
  int64_t inputs = 0;  // rows of linear inputs, captured from the model
  // The same on the kernels of a GPU (foreign_pairs): what they are, or why they could not run.
  struct OnDevice : OrderHistograms {
    std::string name, why_not;
  };
  std::vector<OnDevice> on_device;
};
// Runs `tokens` through the 8-bit model and compares both epilogues on every linear's captured input, on the CPU and, where `device` is a
// GPU's index and not -1, on that GPU's kernels too.
Result<OrderComparison> compare_orders(const model::QuantizedModel& arbitrary, const model::QuantizedModel& power_of_two,
                                       const std::vector<int32_t>& tokens, int threads, int device = -1);

// Greedy generations under both orders: for each prompt the first token that differs, -1: none.
struct Divergence {
  std::vector<int64_t> first_difference;
  int64_t tokens = 0;  // per prompt
  std::array<std::vector<std::string>, 2> graph_nodes;  // of the decoding step of either, on a GPU
  int64_t prompts_that_part() const;
};
// On the CPU by the rule; with `pair`, on GPU `device` by its two kernels.
Result<Divergence> compare_generations(const model::QuantizedModel& model, const std::vector<std::vector<int32_t>>& prompts, int64_t tokens, int threads,
                                       int device = -1, const ops::linear_s8::ForeignPair* pair = nullptr);

}  // namespace zeroulp::verify
