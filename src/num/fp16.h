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

static_assert(fp16_to_float(0x3C00) == 1.0f && fp16_to_float(0x0001) == pow2(-24) && fp16_to_float(0xFBFF) == -65504.0f);

}  // namespace zeroulp::num
