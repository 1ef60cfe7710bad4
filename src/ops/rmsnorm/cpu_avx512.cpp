#include "ops/rmsnorm/fast.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)

namespace zeroulp::ops::rmsnorm {
namespace {

ZU_TARGET_AVX512 int largest_exponent(const uint16_t* x, int64_t d) {
  __m512i top = _mm512_setzero_si512();
  for (int64_t i = 0; i < d; i += 32) {
    const __mmask32 lanes = d - i >= 32 ? ~__mmask32{0} : (__mmask32{1} << (d - i)) - 1;
    top = _mm512_max_epu16(top, _mm512_and_si512(_mm512_maskz_loadu_epi16(lanes, x + i), _mm512_set1_epi16(0x7F80)));
  }
  const __m512i even = _mm512_and_si512(top, _mm512_set1_epi32(0xFFFF));
  const unsigned field = _mm512_reduce_max_epu32(_mm512_max_epu32(even, _mm512_srli_epi32(top, 16))) >> 7;
  return std::max(1, static_cast<int>(field));
}

// square_term of eight elements: m^2 * 2^26 shifted right by 2 (e_max - e); the instruction gives 0 for counts of 64 and more.
ZU_TARGET_AVX512 __m512i square_terms(__m128i x, __m512i e_max) {
  const __m512i v = _mm512_cvtepu16_epi64(x);
  const __m512i field = _mm512_and_si512(_mm512_srli_epi64(v, 7), _mm512_set1_epi64(0xFF));
  const __m512i one = _mm512_set1_epi64(1);
  const __m512i hidden = _mm512_slli_epi64(_mm512_min_epu64(field, one), 7);
  const __m512i m = _mm512_or_si512(_mm512_and_si512(v, _mm512_set1_epi64(0x7F)), hidden);
  const __m512i square = _mm512_slli_epi64(_mm512_mul_epu32(m, m), 26);
  return _mm512_srlv_epi64(square, _mm512_slli_epi64(_mm512_sub_epi64(e_max, _mm512_max_epu64(field, one)), 1));
}

ZU_TARGET_AVX512 int64_t sum_of_squares(const uint16_t* x, int64_t d, int e_max) {
  const __m512i top = _mm512_set1_epi64(e_max);
  __m512i sum0 = _mm512_setzero_si512(), sum1 = sum0;
  for (int64_t i = 0; i < d; i += 16) {  // elements past the end are zeros: their terms are 0
    const __m256i v = _mm256_maskz_loadu_epi16(avx512::first(d - i), x + i);
    sum0 = _mm512_add_epi64(sum0, square_terms(_mm256_castsi256_si128(v), top));
    sum1 = _mm512_add_epi64(sum1, square_terms(_mm256_extracti128_si256(v, 1), top));
  }
  return _mm512_reduce_add_epi64(_mm512_add_epi64(sum0, sum1));
}

ZU_TARGET_AVX512 void scale_row(const uint16_t* x, const uint16_t* weight, uint16_t* y, int64_t d, float r) {
  const __m512 factor = _mm512_set1_ps(r);
  for (int64_t i = 0; i < d; i += 16) {
    const __mmask16 lanes = avx512::first(d - i);
    const __m512 h = avx512::round_bf16(_mm512_mul_ps(avx512::load_bf16(x + i, lanes), factor));
    avx512::store_bf16(y + i, _mm512_mul_ps(h, avx512::load_bf16(weight + i, lanes)), lanes);
  }
}

}  // namespace

void avx512_vnni(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const uint16_t* x = a.x + row * a.x_stride;
    const int e_max = largest_exponent(x, a.d);
    const float r = reciprocal_rms(sum_of_squares(x, a.d, e_max), e_max, a.d, a.eps);
    scale_row(x, a.weight, a.y + row * a.y_stride, a.d, r);
  }
}

}  // namespace zeroulp::ops::rmsnorm

#endif
