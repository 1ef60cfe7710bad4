#include "engine/float_kernels.h"

#include <algorithm>
#include <cmath>

#include "engine/widest.h"
#include "num/bf16.h"
#include "num/exp.h"

namespace zeroulp::engine {
namespace {

constexpr int kLanes = 16;

inline float rounded(float value, Rounding rounding) {
  return rounding == Rounding::kBf16 ? num::bf16_to_float(num::float_to_bf16(value)) : value;
}

// Pairs at distance 8, 4, 2, 1.
inline double lanes_sum(double* lane) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

inline double sum_of_squares(const float* x, int64_t count) {
  double lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lane[j] += static_cast<double>(x[i + j]) * x[i + j];
  for (; i < count; ++i) lane[i % kLanes] += static_cast<double>(x[i]) * x[i];
  return lanes_sum(lane);
}

// The loop bodies are compiled once per rounding, so that the choice is made outside them.
template <class Loop>
void with_rounding(Rounding rounding, const Loop& loop) {
  if (rounding == Rounding::kBf16) {
    run_widest([&]() ZU_INLINE { loop([](float v) ZU_INLINE { return rounded(v, Rounding::kBf16); }); });
  } else {
    run_widest([&]() ZU_INLINE { loop([](float v) ZU_INLINE { return v; }); });
  }
}

}  // namespace

void round_row(float* x, int64_t count, Rounding rounding) {
  if (rounding == Rounding::kNone) return;
  with_rounding(rounding, [&](auto round) ZU_INLINE {
    for (int64_t i = 0; i < count; ++i) x[i] = round(x[i]);
  });
}

void add_bias_row(float* y, const float* bias, int64_t count, Rounding rounding) {
  with_rounding(rounding, [&](auto round) ZU_INLINE {
    for (int64_t i = 0; i < count; ++i) y[i] = round(y[i] + bias[i]);
  });
}

void add_row(float* x, const float* y, int64_t count, Rounding rounding) { add_bias_row(x, y, count, rounding); }

void rmsnorm_row(const float* x, const float* weight, int64_t count, float eps, float* out, Rounding rounding) {
  with_rounding(rounding, [&](auto round) ZU_INLINE {
    const auto mean = static_cast<float>(sum_of_squares(x, count) / static_cast<double>(count));
    const float scale = 1.0f / std::sqrt(mean + eps);
    for (int64_t i = 0; i < count; ++i) out[i] = round(weight[i] * round(x[i] * scale));
  });
}

void rope_row(float* x, const float* cosine, const float* sine, int64_t head_dim, Rounding rounding) {
  const int64_t half = head_dim / 2;
  with_rounding(rounding, [&](auto round) ZU_INLINE {
    for (int64_t i = 0; i < half; ++i) {
      const float x1 = x[i], x2 = x[i + half];
      x[i] = round(round(x1 * cosine[i]) - round(x2 * sine[i]));
      x[i + half] = round(round(x2 * cosine[i]) + round(x1 * sine[i]));
    }
  });
}

void silu_mul_row(const float* gate, const float* up, int64_t count, float* out, Rounding rounding) {
  with_rounding(rounding, [&](auto round) ZU_INLINE {
    for (int64_t i = 0; i < count; ++i) out[i] = round(round(gate[i] / (1.0f + num::exp_f32(-gate[i]))) * up[i]);
  });
}

float softmax_row(float* scores, int64_t begin, int64_t end, int64_t count, float scale, Softmax kind, Rounding rounding) {
  const bool eager = kind == Softmax::kEager;
  double total = 0;
  with_rounding(rounding, [&](auto round) ZU_INLINE {
    float max = -INFINITY;
    if (eager) {
      for (int64_t i = begin; i < end; ++i) scores[i] = round(round(scores[i]) * scale);
    } else {
      for (int64_t i = begin; i < end; ++i) scores[i] = scores[i] * scale;
    }
    for (int64_t i = begin; i < end; ++i) max = scores[i] > max ? scores[i] : max;
    for (int64_t i = 0; i < begin; ++i) scores[i] = 0;
    for (int64_t i = begin; i < end; ++i) scores[i] = num::exp_f32(scores[i] - max);
    for (int64_t i = end; i < count; ++i) scores[i] = 0;
    double lane[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= end; i += kLanes)
      for (int j = 0; j < kLanes; ++j) lane[j] += static_cast<double>(scores[i + j]);
    for (; i < end; ++i) lane[i % kLanes] += static_cast<double>(scores[i]);
    total = lanes_sum(lane);
    const auto sum = static_cast<float>(total);
    if (eager) {
      for (int64_t k = begin; k < end; ++k) scores[k] = round(scores[k] / sum);
    } else {
      for (int64_t k = begin; k < end; ++k) scores[k] = round(scores[k]);
    }
  });
  return eager ? 1.0f : static_cast<float>(total);
}

void divide_row(float* x, float divisor, int64_t count, Rounding rounding) {
  with_rounding(rounding, [&](auto round) ZU_INLINE {
    for (int64_t i = 0; i < count; ++i) x[i] = round(x[i] / divisor);
  });
}

}  // namespace zeroulp::engine
