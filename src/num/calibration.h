// Rounding rules of conversion: fixed-point values of calibration inputs, GPTQ's codes, powers of two of smoothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "num/bits.h"
#include "num/round.h"

namespace zeroulp::num {

// rne(x * 2^exponent), saturated at 2^15 - 1: values just below a power of two would round up to it.
inline constexpr int kFixedBits = 15;
inline int16_t fixed_point(float x, int exponent) {
  constexpr int32_t kTop = (1 << kFixedBits) - 1;
  return static_cast<int16_t>(std::clamp(rne(ldexp_rn(x, exponent)), -kTop, kTop));
}

// The nearest int8 code of a weight that carries error feedback: in binary64, saturated at 127.
inline double feedback_code(double weight, double scale) { return std::clamp(std::nearbyint(weight / scale), -127.0, 127.0); }

// The integer nearest to a logarithm in units of 2^-24, ties to even, within [low, high].
inline int nearest_shift(double log2_q24, int low, int high) {
  return static_cast<int>(std::clamp(std::nearbyint(log2_q24 * 0x1p-24), static_cast<double>(low), static_cast<double>(high)));
}

}  // namespace zeroulp::num
