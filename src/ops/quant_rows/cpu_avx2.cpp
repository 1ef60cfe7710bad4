#include <algorithm>

#include "ops/quant_rows/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)

namespace zeroulp::ops::quant_rows {
namespace {

ZU_TARGET_AVX2 uint16_t absmax(const uint16_t* x, int64_t k) {
  const __m256i magnitude = _mm256_set1_epi16(0x7FFF);
  __m256i top = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 16 <= k; i += 16)
    top = _mm256_max_epu16(top, _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)), magnitude));
  // The least of eight unsigned words is one instruction; the largest is the least of the complements.
  const __m128i half = _mm_max_epu16(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(half, _mm_set1_epi16(-1)));
  const auto whole = static_cast<uint16_t>(~_mm_cvtsi128_si32(least));
  return std::max(whole, row_absmax(x + i, k - i));
}

ZU_TARGET_AVX2 void write_codes(const uint16_t* x, int16_t* codes, int64_t k, float multiplier) {
  const __m256 m = _mm256_set1_ps(multiplier);
  int64_t i = 0;
  for (; i + 8 <= k; i += 8) {
    const __m256i q = _mm256_cvtps_epi32(_mm256_mul_ps(avx2::load_bf16(x + i), m));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i),
                     _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1)));
  }
  for (; i < k; ++i) codes[i] = static_cast<int16_t>(num::quant_code(num::bf16_to_float(x[i]), multiplier));
}

}  // namespace

void avx2(const Args& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const uint16_t* x = a.x + r * a.x_stride;
    int16_t* codes = a.codes + r * a.codes_stride;
    const uint16_t top = a.absmax ? a.absmax[r] : absmax(x, a.k);
    if (const float multiplier = begin_row(a, r, top); multiplier != 0)
      write_codes(x, codes, a.k, multiplier);
    else
      std::fill(codes, codes + a.k, int16_t{0});
  }
}

}  // namespace zeroulp::ops::quant_rows

#endif
