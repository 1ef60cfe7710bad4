#include <algorithm>

#include "ops/quant_rows/fast.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)

namespace zeroulp::ops::quant_rows {
namespace {

ZU_TARGET_AVX512 uint16_t absmax(const uint16_t* x, int64_t k) {
  const __m512i magnitude = _mm512_set1_epi16(0x7FFF);
  __m512i top = _mm512_setzero_si512();
  for (int64_t i = 0; i < k; i += 32) {
    const __mmask32 lanes = k - i >= 32 ? ~__mmask32{0} : (__mmask32{1} << (k - i)) - 1;
    top = _mm512_max_epu16(top, _mm512_and_si512(_mm512_maskz_loadu_epi16(lanes, x + i), magnitude));
  }
  const __m512i even = _mm512_and_si512(top, _mm512_set1_epi32(0xFFFF));
  return static_cast<uint16_t>(_mm512_reduce_max_epu32(_mm512_max_epu32(even, _mm512_srli_epi32(top, 16))));
}

ZU_TARGET_AVX512 void write_codes(const uint16_t* x, int16_t* codes, int64_t k, float multiplier) {
  const __m512 m = _mm512_set1_ps(multiplier);
  for (int64_t i = 0; i < k; i += 16) {
    const __mmask16 lanes = avx512::first(k - i);
    const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(avx512::load_bf16(x + i, lanes), m));
    _mm256_mask_storeu_epi16(codes + i, lanes, _mm512_cvtepi32_epi16(q));
  }
}

}  // namespace

void avx512_vnni(const Args& a) {
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
