// AVX2 spellings of num's rules, for the kernels of this folder: the same IEEE operations, eight lanes at a time, so the same bits
// (tests/ops/simd_test.cpp). A "part" is the first `count` lanes, 0 <= count <= 8; nothing behind them is read or written.
// Functions that use these carry ZU_TARGET_AVX2 themselves; a lambda would not inherit it.
#pragma once

#include "ops/op.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "num/bf16.h"

namespace zeroulp::ops::avx2 {

// All bits set in the first `count` 32-bit lanes.
ZU_TARGET_AVX2 inline __m256i part_mask(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
ZU_TARGET_AVX2 inline __m256 load_part(const float* p, int64_t count) { return _mm256_maskload_ps(p, part_mask(count)); }
ZU_TARGET_AVX2 inline void store_part(float* p, __m256 v, int64_t count) { _mm256_maskstore_ps(p, part_mask(count), v); }

// Transposes 8 rows of 8 dwords.
ZU_TARGET_AVX2 inline void transpose(__m256i (&v)[8]) {
  __m256i t[8];
  ZU_UNROLL for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
  }
  ZU_UNROLL for (int i = 0; i < 8; i += 4) {
    v[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  ZU_UNROLL for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2x128_si256(v[i], v[i + 4], 0x20);
    t[i + 4] = _mm256_permute2x128_si256(v[i], v[i + 4], 0x31);
  }
  ZU_UNROLL for (int i = 0; i < 8; ++i) v[i] = t[i];
}

// num::bf16_to_float.
ZU_TARGET_AVX2 inline __m256 widen_bf16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
ZU_TARGET_AVX2 inline __m256 load_bf16(const uint16_t* p) {
  return widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
ZU_TARGET_AVX2 inline __m256 load_bf16_part(const uint16_t* p, int64_t count) {
  alignas(16) uint16_t lanes[8] = {};
  std::memcpy(lanes, p, static_cast<size_t>(count) * 2);
  return load_bf16(lanes);
}

// num::float_to_bf16: RNE, NaN to 0x7FC0.
ZU_TARGET_AVX2 inline __m128i to_bf16(__m256 v) {
  const __m256i b = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(b, _mm256_set1_epi32(0x7FFF)), odd), 16);
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i r = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(num::kBf16Nan), is_nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}
// The same rounding, left as binary32.
ZU_TARGET_AVX2 inline __m256 round_bf16(__m256 v) { return widen_bf16(to_bf16(v)); }
ZU_TARGET_AVX2 inline void store_bf16(uint16_t* p, __m256 v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_bf16(v)); }
ZU_TARGET_AVX2 inline void store_bf16_part(uint16_t* p, __m256 v, int64_t count) {
  alignas(16) uint16_t lanes[8];
  store_bf16(lanes, v);
  std::memcpy(p, lanes, static_cast<size_t>(count) * 2);
}

// num::i2f of four integers, |value| < 2^51: exact in binary64 (as an offset from 1.5 * 2^52), then one rounding.
ZU_TARGET_AVX2 inline __m128 i2f(__m256i values) {
  const __m256d magic = _mm256_set1_pd(0x1.8p52);
  const __m256i shifted = _mm256_add_epi64(values, _mm256_castpd_si256(magic));
  return _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_castsi256_pd(shifted), magic));
}

// p * 2^k for integral k in [-126, 127].
ZU_TARGET_AVX2 inline __m256 mul_pow2(__m256 p, __m256 k) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(k), _mm256_set1_epi32(127));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
}

// num::split_nearest, num::exp2_3 and num::exp2_5. NaN stays NaN.
ZU_TARGET_AVX2 inline __m256 nearest(__m256 d) {
  const __m256 magic = _mm256_set1_ps(12582912.0f);
  return _mm256_sub_ps(_mm256_add_ps(d, magic), magic);
}
ZU_TARGET_AVX2 inline __m256 exp2_3(__m256 d) {
  d = _mm256_max_ps(_mm256_set1_ps(-126.0f), d);
  const __m256 k = nearest(d), f = _mm256_sub_ps(d, k);
  __m256 p = _mm256_fmadd_ps(f, _mm256_set1_ps(0x1.c2a178p-5f), _mm256_set1_ps(0x1.f00c10p-3f));
  p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(0x1.62f5fap-1f));
  return mul_pow2(_mm256_fmadd_ps(f, p, _mm256_set1_ps(1.0f)), k);
}
ZU_TARGET_AVX2 inline __m256 exp2_5(__m256 d) {
  d = _mm256_min_ps(_mm256_set1_ps(126.0f), _mm256_max_ps(_mm256_set1_ps(-126.0f), d));
  const __m256 k = nearest(d), f = _mm256_sub_ps(d, k);
  __m256 p = _mm256_fmadd_ps(f, _mm256_set1_ps(0x1.5bb9ecp-10f), _mm256_set1_ps(0x1.3cea82p-7f));
  p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(0x1.c6b754p-5f));
  p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(0x1.ebf9bcp-3f));
  p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(0x1.62e42ap-1f));
  return mul_pow2(_mm256_fmadd_ps(f, p, _mm256_set1_ps(1.0f)), k);
}

// Exact sum of the lanes.
ZU_TARGET_AVX2 inline int64_t sum_lanes_64(__m256i v) {
  const __m128i pair = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  return _mm_cvtsi128_si64(pair) + _mm_extract_epi64(pair, 1);
}
// The eight 32-bit lanes added in pairs as four 64-bit lanes.
ZU_TARGET_AVX2 inline __m256i widen_sum(__m256i v) {
  return _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)),
                          _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
}

// The largest of finite numbers; of -0 and +0 either. `finite` is false when some number is not, and `max` then means nothing.
struct MaxScan {
  float max;
  bool finite;
};
ZU_TARGET_AVX2 inline MaxScan scan_max(const float* x, int64_t count) {
  const __m256i infinity = _mm256_set1_epi32(0x7F800000);
  __m256 max = _mm256_set1_ps(x[0]);
  __m256i bad = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(v), infinity), infinity));
    max = _mm256_max_ps(max, v);
  }
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, max);
  MaxScan s{x[0], _mm256_testz_si256(bad, bad) != 0};
  for (const float lane : lanes) s.max = lane > s.max ? lane : s.max;
  for (; i < count; ++i) {
    s.finite &= num::is_finite(x[i]);
    s.max = x[i] > s.max ? x[i] : s.max;
  }
  return s;
}

}  // namespace zeroulp::ops::avx2
#endif
