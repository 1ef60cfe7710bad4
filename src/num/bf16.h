// bfloat16 as raw bits (uint16_t): sign 1, exponent 8 (bias 127), fraction 7.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "num/bits.h"

namespace zeroulp::num {

inline constexpr uint16_t kBf16Nan = 0x7FC0;

ZU_HD constexpr float bf16_to_float(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

// Round to nearest, ties to even; subnormals kept; overflow to infinity. Every NaN becomes 0x7FC0.
ZU_HD constexpr uint16_t float_to_bf16(float value) {
  const uint32_t b = bits_of(value);
  if ((b & 0x7FFFFFFFu) > 0x7F800000u) return kBf16Nan;
  return static_cast<uint16_t>((b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
}

static_assert(float_to_bf16(1.0f) == 0x3F80 && float_to_bf16(-0.0f) == 0x8000);
static_assert(float_to_bf16(float_of(0x3F808000)) == 0x3F80, "a tie goes to the even neighbour below");
static_assert(float_to_bf16(float_of(0x3F818000)) == 0x3F82, "a tie goes to the even neighbour above");
static_assert(float_to_bf16(float_of(0x3F808001)) == 0x3F81);
static_assert(float_to_bf16(float_of(0x7F7FFFFF)) == 0x7F80, "the largest float overflows to infinity");
static_assert(float_to_bf16(float_of(0x7F800001)) == kBf16Nan, "a NaN with a low payload must not become infinity");

}  // namespace zeroulp::num
