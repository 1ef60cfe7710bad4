// IEEE binary16 as raw bits (uint16_t).
#pragma once

#include <cstdint>

#include "num/bits.h"

namespace zeroulp::num {

// Exact.
constexpr float fp16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu, fraction = bits & 0x3FFu;
  if (exponent == 31) return float_of(sign | 0x7F800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * pow2(-24);
    return sign ? -magnitude : magnitude;
  }
  return float_of(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// Round to nearest, ties to even; subnormals kept; overflow to infinity. Every NaN becomes 0x7E00.
constexpr uint16_t float_to_fp16(float value) {
  const uint32_t b = bits_of(value), magnitude = b & 0x7FFFFFFFu;
  const auto sign = static_cast<uint16_t>((b >> 16) & 0x8000u);
  if (magnitude > 0x7F800000u) return 0x7E00;
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 2^16 and more
  // Below 2^-14 adding 1/2 leaves a multiple of 2^-24, rounded to nearest even, in the low bits.
  if (magnitude < 0x38800000u) return static_cast<uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3F000000u));
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13));
}

static_assert(float_to_fp16(1.0f) == 0x3C00 && float_to_fp16(-pow2(-24)) == 0x8001 && float_to_fp16(65520.0f) == 0x7C00);
static_assert(float_to_fp16(65519.0f) == 0x7BFF && float_to_fp16(pow2(-25)) == 0 && float_to_fp16(1.5f * pow2(-24)) == 2);
static_assert(fp16_to_float(0x3C00) == 1.0f && fp16_to_float(0x0001) == pow2(-24) && fp16_to_float(0xFBFF) == -65504.0f);

}  // namespace zeroulp::num
