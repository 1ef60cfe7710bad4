// Scale and code rules of int8 weights (docs/contract.md, "Linear"; docs/spec/model.md): one scale per output channel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "num/bits.h"
#include "num/round.h"

namespace zeroulp::num {

enum class ScaleRule {
  kFree,     // div_rn(a, 127)
  kCeil,     // the least power of two with a <= 127 * scale: no code is clipped
  kLsq,      // of ceil, ceil/2 and ceil/4 the one with the least sum of squared errors; the larger one where two are equal
  kNearest,  // the power of two nearest to a / 127 by logarithm: clips where it lies below
};
inline constexpr std::string_view kScaleRuleNames[] = {"free", "ceil", "lsq", "nearest"};

inline constexpr int kWeightTop = 127;
inline constexpr float kMinWeightScale = pow2(-40), kMaxWeightScale = pow2(8);

// The nearest code, saturated.
inline int8_t weight_code(float weight, float scale) {
  const float q = std::nearbyint(weight / scale);
  return static_cast<int8_t>(std::clamp(q, -127.0f, 127.0f));
}

// The least e with a <= 127 * 2^e. a: finite, positive, normal. 127 * 2^e = 1.984375 * 2^(e + 6), a fraction field of 0x7E0000.
constexpr int ceil_scale_exponent(float a) {
  const uint32_t bits = bits_of(a);
  return static_cast<int>(bits >> 23) - 127 - 6 + ((bits & 0x7FFFFFu) > 0x7E0000u ? 1 : 0);
}
static_assert(ceil_scale_exponent(127.0f) == 0 && ceil_scale_exponent(127.00001f) == 1 && ceil_scale_exponent(128.0f) == 1);
static_assert(ceil_scale_exponent(63.5f) == -1 && ceil_scale_exponent(64.0f) == 0 && ceil_scale_exponent(1.0f) == -6);

// The e that is nearest to log2(a / 127): e where a <= 127 * sqrt(2) * 2^e fails one below. Squares of binary32 are exact in binary64,
// and no tie exists because sqrt(2) is irrational.
constexpr int nearest_scale_exponent(float a) {
  const int e = ceil_scale_exponent(a);
  const double half_way_squared = 2.0 * 127.0 * 127.0 * pow2_double(2 * (e - 1));
  return static_cast<double>(a) * a < half_way_squared ? e - 1 : e;
}
static_assert(nearest_scale_exponent(127.0f) == 0 && nearest_scale_exponent(179.0f) == 0 && nearest_scale_exponent(180.0f) == 1);

// Sum of squared errors of a row under a scale: binary64, ascending, one accumulator.
inline double weight_error(std::span<const float> row, float scale) {
  double sum = 0;
  for (const float w : row) {
    const double d = static_cast<double>(weight_code(w, scale)) * scale - w;
    sum += d * d;
  }
  return sum;
}

inline int lsq_scale_exponent(std::span<const float> row, float a) {
  const int top = ceil_scale_exponent(a);
  int best = top;
  double least = weight_error(row, pow2(top));
  for (int e = top - 1; e >= top - 2; --e)
    if (const double error = weight_error(row, pow2(e)); error < least) least = error, best = e;
  return best;
}

// The scale of a row of finite weights; 1 for a row of zeros; nothing when it would leave [2^-40, 2^8].
inline std::optional<float> weight_scale(std::span<const float> row, ScaleRule rule) {
  float a = 0;
  for (const float w : row) a = std::max(a, std::fabs(w));
  if (a == 0) return 1.0f;
  // Three binades of room for the powers of two below ceil.
  if (!(a >= pow2(-40) && a <= pow2(20))) return std::nullopt;
  float scale = 0;
  switch (rule) {
    case ScaleRule::kFree: scale = a / 127.0f; break;
    case ScaleRule::kCeil: scale = pow2(ceil_scale_exponent(a)); break;
    case ScaleRule::kLsq: scale = pow2(lsq_scale_exponent(row, a)); break;
    case ScaleRule::kNearest: scale = pow2(nearest_scale_exponent(a)); break;
  }
  if (!(scale >= kMinWeightScale && scale <= kMaxWeightScale)) return std::nullopt;
  return scale;
}

}  // namespace zeroulp::num
