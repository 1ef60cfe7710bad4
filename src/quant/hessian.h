// Second moments of a linear's inputs as exact integers: no order of summation, no machine and no number of threads can move a bit.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "quant/dense.h"

namespace zeroulp::quant {

// A value of channel j counts as the integer num::fixed_point(x, exponents[j]), at most 2^15 - 1 in magnitude.
// Integer sums stay below 2^53, so binary64 holds them exactly: 2^30 a product.
inline constexpr int64_t kMaxHessianRows = int64_t{1} << 22;

// Rows of inputs, wherever they come from: writes rows [first, first + rows) to out, [rows, k]. Called from several threads at once.
struct InputRows {
  int64_t rows = 0, k = 0;
  std::function<void(int64_t first, int64_t rows, float* out)> read;
};
InputRows input_rows(std::span<const uint16_t> bf16, int64_t k);

// Largest magnitude per channel.
std::vector<float> channel_maxima(const InputRows& x, ThreadPool& pool);

// The fixed point of each channel: its maximum lands in [2^14, 2^15). 0 for a channel of zeros.
std::vector<int> fixed_point_exponents(std::span<const float> maxima);

// Channels by ascending second moment, ties by index: the column that GPTQ decides first, the largest, comes last.
struct Hessian {
  std::vector<int32_t> order;  // order[p]: the channel at place p
  LowerMatrix matrix;          // in places, not channels; real values: exact integers times exact powers of two
};

// Refuses more than kMaxHessianRows.
Result<Hessian> hessian_of(const InputRows& x, ThreadPool& pool);

}  // namespace zeroulp::quant
