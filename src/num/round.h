// Rounding to integers and from integers. All of it assumes the RNE control of base/fp_env.h.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/host_device.h"
#include "num/bits.h"

namespace zeroulp::num {

// Nearest integer, ties to even. |value| < 2^31, and 2^63. Where the processor converts under the RNE control this is one instruction, and a
// call of the mathematics library otherwise (tests/num/quant_test.cpp compares them).
ZU_HD inline int32_t rne(float value) {
#if defined(__SSE2__) && !defined(__CUDA_ARCH__)
  return _mm_cvtss_si32(_mm_set_ss(value));
#else
  return static_cast<int32_t>(std::nearbyint(value));
#endif
}
ZU_HD inline int64_t rne64(float value) {
#if defined(__SSE2__) && !defined(__CUDA_ARCH__)
  return _mm_cvtss_si64(_mm_set_ss(value));
#else
  return static_cast<int64_t>(std::nearbyint(value));
#endif
}

// An exact integer to binary32 with ONE rounding to nearest even. C++ gives exactly this for the built-in conversions.
ZU_HD constexpr float i2f(int32_t value) { return static_cast<float>(value); }
ZU_HD constexpr float i2f(int64_t value) { return static_cast<float>(value); }

static_assert(i2f(int32_t{16777217}) == 16777216.0f && i2f(int32_t{16777219}) == 16777220.0f);
static_assert(i2f((int64_t{1} << 40) + (int64_t{1} << 16) + 1) == 0x1.000002p40f, "just above a tie: a second rounding would lose it");

// Planes of a 15-bit code q in [-16256, 16256]: q = 128 hi + lo with hi in [-127, 127], lo in [-64, 63].
ZU_HD constexpr int32_t plane_hi(int32_t q) { return (q + 64) >> 7; }
ZU_HD constexpr int32_t plane_lo(int32_t q) { return q - 128 * plane_hi(q); }

static_assert(plane_hi(16256) == 127 && plane_lo(16256) == 0 && plane_hi(-16256) == -127);
static_assert(plane_hi(64) == 1 && plane_lo(64) == -64 && plane_hi(63) == 0 && plane_hi(-64) == 0 && plane_hi(-65) == -1);

}  // namespace zeroulp::num
