// Bit views of IEEE numbers, and exact powers of two.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/host_device.h"

namespace zeroulp::num {

ZU_HD constexpr uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
ZU_HD constexpr uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }
ZU_HD constexpr float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

// The number of zeros above the highest 1; 64 for 0. (nvcc 13.0 turns std::countl_zero of a run-time value into the constant 64.)
ZU_HD constexpr int leading_zeros(uint64_t value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) return __clzll(static_cast<long long>(value));
#endif
  return std::countl_zero(value);
}

// 2^k as binary32; k in [-126, 127].
ZU_HD constexpr float pow2(int k) { return float_of(static_cast<uint32_t>(k + 127) << 23); }

// 2^k as binary64; k in [-1022, 1023].
ZU_HD constexpr double pow2_double(int k) { return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52); }

ZU_HD constexpr bool is_finite(float value) { return (bits_of(value) & 0x7F800000u) != 0x7F800000u; }
ZU_HD constexpr bool is_nan(float value) { return (bits_of(value) & 0x7FFFFFFFu) > 0x7F800000u; }
ZU_HD constexpr bool is_pow2(float value) { return is_finite(value) && value > 0 && (bits_of(value) & 0x7FFFFFu) == 0; }

// value * 2^k with ONE rounding to nearest even, also into the subnormal range. |k| <= 800. The product is exact in binary64.
ZU_HD constexpr float ldexp_rn(float value, int k) { return static_cast<float>(static_cast<double>(value) * pow2_double(k)); }

// The signed distance of two finite floats of one format in units in the last place, as a count of representable numbers between them.
ZU_HD constexpr int64_t ordered(uint32_t bits, int width) {
  const uint32_t sign = 1u << (width - 1);
  return (bits & sign) ? -static_cast<int64_t>(bits & (sign - 1)) : static_cast<int64_t>(bits);
}
ZU_HD constexpr int64_t ulp_distance_bf16(uint16_t a, uint16_t b) { return ordered(a, 16) - ordered(b, 16); }
ZU_HD constexpr int64_t ulp_distance_f32(float a, float b) { return ordered(bits_of(a), 32) - ordered(bits_of(b), 32); }

// The same without a sign for raw bits of any width up to 64; the two zeros are 0 apart. Neither may be a NaN.
ZU_HD constexpr uint64_t ulp_gap(uint64_t a, uint64_t b, int width) {
  const uint64_t sign = uint64_t{1} << (width - 1), x = a & (sign - 1), y = b & (sign - 1);
  if ((a & sign) != (b & sign)) return x + y;
  return x > y ? x - y : y - x;
}

}  // namespace zeroulp::num
