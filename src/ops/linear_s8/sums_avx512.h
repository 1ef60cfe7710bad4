// What the variants with 512-bit vectors share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/linear_s8/contract.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {

inline constexpr int64_t kVector = 64;     // bytes
constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
inline constexpr int64_t kNarrowK = 1040;  // up to here 128 * hi + lo stays inside int32
static_assert(kNarrowK * 16256 * 127 < (int64_t{1} << 31));

// The call's scratch memory, or the calling thread's, which it keeps. (The thread's is in a function of its own: meeting a thread_local vector
// allocates, even one that stays empty.)
inline std::byte* own_scratch(int64_t bytes) {
  static thread_local std::vector<std::byte> memory;
  if (static_cast<int64_t>(memory.size()) < bytes + kVector) memory.resize(static_cast<size_t>(bytes + kVector));
  return memory.data() + (kVector - static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory.data()) % kVector)) % kVector;
}
inline std::byte* scratch(const Args& a, int64_t bytes) { return a.scratch != nullptr ? a.scratch : own_scratch(bytes); }

// i2f of sixteen sums: of one plane, or 128 * hi + lo of two.
template <int P>
ZU_TARGET_AVX512 inline __m512 i2f_sums(int64_t k, __m512i hi, __m512i lo) {
  if (P == 1) return _mm512_cvtepi32_ps(hi);
  if (k <= kNarrowK) return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(hi, 7), lo));
  return avx512::i2f_planes(hi, lo, 7);
}

}  // namespace zeroulp::ops::linear_s8
#endif
