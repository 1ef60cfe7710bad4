// AVX-512 spellings of num's rules, sixteen lanes at a time; otherwise as simd_avx2.h. Parts are masks: first(count).
#pragma once

#include "ops/op.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#include "num/bf16.h"

namespace zeroulp::ops::avx512 {

inline constexpr __mmask16 kAll = 0xFFFF;
// The first `count` of 16 and of 64 lanes; larger counts give all.
inline __mmask16 first(int64_t count) { return static_cast<__mmask16>(count >= 16 ? 0xFFFFu : (1u << count) - 1); }
inline __mmask64 first_bytes(int64_t count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

// num::bf16_to_float; lanes outside the mask are 0 and are not read.
ZU_TARGET_AVX512 inline __m512 load_bf16(const uint16_t* p, __mmask16 lanes = kAll) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, p)), 16));
}

// num::float_to_bf16: RNE, NaN to 0x7FC0. In the low half of each dword.
ZU_TARGET_AVX512 inline __m512i to_bf16_dwords(__m512 v) {
  const __m512i b = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(b, _mm512_set1_epi32(0x7FFF)), odd), 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_mask_mov_epi32(rounded, is_nan, _mm512_set1_epi32(num::kBf16Nan));
}
ZU_TARGET_AVX512 inline __m256i to_bf16(__m512 v) { return _mm512_cvtepi32_epi16(to_bf16_dwords(v)); }
// The same rounding, left as binary32.
ZU_TARGET_AVX512 inline __m512 round_bf16(__m512 v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(to_bf16_dwords(v), 16));
}
ZU_TARGET_AVX512 inline void store_bf16(uint16_t* p, __m512 v, __mmask16 lanes = kAll) {
  _mm256_mask_storeu_epi16(p, lanes, to_bf16(v));
}

// The first and the last eight of sixteen integers 2^shift * high + low, 0 <= shift < 32.
ZU_TARGET_AVX512 inline __m512i join_planes_low(__m512i high, __m512i low, unsigned shift) {
  return _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(high)), shift),
                          _mm512_cvtepi32_epi64(_mm512_castsi512_si256(low)));
}
ZU_TARGET_AVX512 inline __m512i join_planes_high(__m512i high, __m512i low, unsigned shift) {
  return _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(high, 1)), shift),
                          _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(low, 1)));
}
// num::i2f of them: exact in 64 bits, then one rounding.
ZU_TARGET_AVX512 inline __m512 i2f_planes(__m512i high, __m512i low, unsigned shift) {
  const __m256 f0 = _mm512_cvtepi64_ps(join_planes_low(high, low, shift));
  const __m256 f1 = _mm512_cvtepi64_ps(join_planes_high(high, low, shift));
  return _mm512_insertf32x8(_mm512_castps256_ps512(f0), f1, 1);
}

// p * 2^k for integral k in [-126, 127].
ZU_TARGET_AVX512 inline __m512 mul_pow2(__m512 p, __m512 k) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(k), _mm512_set1_epi32(127));
  return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23)));
}

// num::split_nearest, num::exp2_3 and num::exp2_5. NaN stays NaN.
ZU_TARGET_AVX512 inline __m512 nearest(__m512 d) {
  const __m512 magic = _mm512_set1_ps(12582912.0f);
  return _mm512_sub_ps(_mm512_add_ps(d, magic), magic);
}
ZU_TARGET_AVX512 inline __m512 exp2_3(__m512 d) {
  d = _mm512_max_ps(_mm512_set1_ps(-126.0f), d);
  const __m512 k = nearest(d), f = _mm512_sub_ps(d, k);
  __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(0x1.c2a178p-5f), _mm512_set1_ps(0x1.f00c10p-3f));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(0x1.62f5fap-1f));
  return mul_pow2(_mm512_fmadd_ps(f, p, _mm512_set1_ps(1.0f)), k);
}
ZU_TARGET_AVX512 inline __m512 exp2_5(__m512 d) {
  d = _mm512_min_ps(_mm512_set1_ps(126.0f), _mm512_max_ps(_mm512_set1_ps(-126.0f), d));
  const __m512 k = nearest(d), f = _mm512_sub_ps(d, k);
  __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(0x1.5bb9ecp-10f), _mm512_set1_ps(0x1.3cea82p-7f));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(0x1.c6b754p-5f));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(0x1.ebf9bcp-3f));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(0x1.62e42ap-1f));
  return mul_pow2(_mm512_fmadd_ps(f, p, _mm512_set1_ps(1.0f)), k);
}

// The largest of finite numbers; of -0 and +0 either. `finite` is false when some number is not, and `max` then means nothing.
struct MaxScan {
  float max;
  bool finite;
};
ZU_TARGET_AVX512 inline MaxScan scan_max(const float* x, int64_t count) {
  const __m512 start = _mm512_set1_ps(x[0]);
  const __m512i infinity = _mm512_set1_epi32(0x7F800000);
  __m512 max = start;
  unsigned bad = 0;
  for (int64_t i = 0; i < count; i += 16) {
    const __m512 v = _mm512_mask_loadu_ps(start, first(count - i), x + i);
    bad |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(v), infinity), infinity);
    max = _mm512_max_ps(max, v);
  }
  return {_mm512_reduce_max_ps(max), bad == 0};
}

// The low bytes of 64 words.
ZU_TARGET_AVX512 inline __m512i low_bytes(__m512i first, __m512i last) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(first)), _mm512_cvtepi16_epi8(last), 1);
}
// num::plane_hi and plane_lo of 64 codes.
ZU_TARGET_AVX512 inline void split_planes(__m512i first, __m512i last, __m512i& hi, __m512i& lo) {
  const __m512i h0 = _mm512_srai_epi16(_mm512_add_epi16(first, _mm512_set1_epi16(64)), 7);
  const __m512i h1 = _mm512_srai_epi16(_mm512_add_epi16(last, _mm512_set1_epi16(64)), 7);
  hi = low_bytes(h0, h1);
  lo = low_bytes(_mm512_sub_epi16(first, _mm512_slli_epi16(h0, 7)), _mm512_sub_epi16(last, _mm512_slli_epi16(h1, 7)));
}

// Transposes 16 rows of 16 dwords; in place, so that no more than 20 registers are live.
ZU_TARGET_AVX512 inline void transpose(__m512i (&v)[16]) {
  ZU_UNROLL for (int i = 0; i < 16; i += 4) {
    const __m512i low01 = _mm512_unpacklo_epi32(v[i], v[i + 1]), high01 = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    const __m512i low23 = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]), high23 = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
    v[i] = _mm512_unpacklo_epi64(low01, low23);
    v[i + 1] = _mm512_unpackhi_epi64(low01, low23);
    v[i + 2] = _mm512_unpacklo_epi64(high01, high23);
    v[i + 3] = _mm512_unpackhi_epi64(high01, high23);
  }
  // v[4 * q + j] now holds, in its 128-bit lane l, dword 4 * l + j of rows 4 * q .. 4 * q + 3.
  ZU_UNROLL for (int j = 0; j < 4; ++j) {
    const __m512i even01 = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x88), odd01 = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xDD);
    const __m512i even23 = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x88),
                  odd23 = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xDD);
    v[j] = _mm512_shuffle_i32x4(even01, even23, 0x88);
    v[8 + j] = _mm512_shuffle_i32x4(even01, even23, 0xDD);
    v[4 + j] = _mm512_shuffle_i32x4(odd01, odd23, 0x88);
    v[12 + j] = _mm512_shuffle_i32x4(odd01, odd23, 0xDD);
  }
}

}  // namespace zeroulp::ops::avx512
#endif
