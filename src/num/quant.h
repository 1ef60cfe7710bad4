// Scale, code and range rules of the activation quantiser (docs/contract.md, "Rows, ranges, quantiser").
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "num/bf16.h"
#include "num/bits.h"
#include "num/round.h"

namespace zeroulp::num {

// Activation widths: 8 bits give codes to 127, 15 bits to 16256 = 127 * 128 (two int8 planes).
ZU_HD constexpr float quant_top(int width) { return width == 8 ? 127.0f : 16256.0f; }

// The largest magnitude that a row may have, as bf16 bits; a row whose largest magnitude is below `min` has codes 0 and scale 1. And the
// rule of the scale: the largest magnitude gets the largest code, or the scale is the least power of two that clips nothing.
struct RowRange {
  uint16_t min_bits, max_bits;
  bool pow2_scale = false;
};
ZU_HD constexpr uint16_t bf16_pow2_bits(int k) { return static_cast<uint16_t>((k + 127) << 7); }
inline constexpr RowRange kLinearRange{bf16_pow2_bits(-72), bf16_pow2_bits(96)};
inline constexpr RowRange kLinearPow2Range{kLinearRange.min_bits, kLinearRange.max_bits, true};  // profile both-po2
inline constexpr RowRange kAttentionRange{bf16_pow2_bits(-40), bf16_pow2_bits(48)};

// a: largest magnitude of the row, inside the range. scale = div_rn(a, T); code = rne(mul(x, div_rn(T, a))).
ZU_HD inline float quant_scale(float a, int width) { return a / quant_top(width); }
ZU_HD inline float quant_multiplier(float a, int width) { return quant_top(width) / a; }
ZU_HD inline int32_t quant_code(float x, float multiplier) { return rne(x * multiplier); }

// Exponent of a power-of-two scale at 8 bits: the least e with a <= 127 * 2^e, by comparison of exponent and mantissa. a: finite bf16 magnitude
// bits, not zero and not subnormal. 127 * 2^e = 1.984375 * 2^(e + 6), and 1.984375 has the fraction bits 0x7E.
ZU_HD constexpr int pow2_scale_exponent(uint16_t a_bits) {
  const int exponent = (a_bits >> 7) - 127;
  return exponent - 6 + ((a_bits & 0x7F) > 0x7E ? 1 : 0);
}
static_assert(pow2_scale_exponent(0x42FE) == 0, "127 = 127 * 2^0");
static_assert(pow2_scale_exponent(0x42FF) == 1, "127.5 needs the next power");
static_assert(pow2_scale_exponent(0x4300) == 1 && pow2_scale_exponent(0x3F80) == -6);

// The same for either width: 16256 is 127 * 2^7.
ZU_HD constexpr int pow2_scale_exponent(uint16_t a_bits, int width) { return pow2_scale_exponent(a_bits) - (width == 8 ? 0 : 7); }

}  // namespace zeroulp::num
