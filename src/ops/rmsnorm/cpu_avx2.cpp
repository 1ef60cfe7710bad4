#include "ops/rmsnorm/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)

namespace zeroulp::ops::rmsnorm {
namespace {

ZU_TARGET_AVX2 int largest_exponent(const uint16_t* x, int64_t d) {
  __m256i top = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 16 <= d; i += 16) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    top = _mm256_max_epu16(top, _mm256_and_si256(v, _mm256_set1_epi16(0x7F80)));
  }
  const __m128i half = _mm_max_epu16(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(half, _mm_set1_epi16(-1)));
  int e_max = std::max(1, static_cast<int>((~_mm_cvtsi128_si32(least) & 0xFFFF) >> 7));
  for (; i < d; ++i) e_max = std::max(e_max, exponent_of(x[i]));
  return e_max;
}

// square_term of four elements: m^2 * 2^26 shifted right by 2 (e_max - e); the instruction gives 0 for counts of 64 and more.
ZU_TARGET_AVX2 __m256i square_terms(__m128i m, __m128i exponent, __m128i e_max) {
  const __m256i square = _mm256_slli_epi64(_mm256_cvtepu32_epi64(_mm_mullo_epi32(m, m)), 26);
  return _mm256_srlv_epi64(square, _mm256_cvtepu32_epi64(_mm_slli_epi32(_mm_sub_epi32(e_max, exponent), 1)));
}

ZU_TARGET_AVX2 int64_t sum_of_squares(const uint16_t* x, int64_t d, int e_max) {
  const __m256i one = _mm256_set1_epi32(1);
  const __m128i top = _mm_set1_epi32(e_max);
  __m256i sum0 = _mm256_setzero_si256(), sum1 = sum0;
  int64_t i = 0;
  for (; i + 8 <= d; i += 8) {
    const __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i)));
    const __m256i field = _mm256_and_si256(_mm256_srli_epi32(v, 7), _mm256_set1_epi32(0xFF));
    const __m256i hidden = _mm256_slli_epi32(_mm256_min_epu32(field, one), 7);
    const __m256i m = _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi32(0x7F)), hidden);
    const __m256i e = _mm256_max_epu32(field, one);
    sum0 = _mm256_add_epi64(sum0, square_terms(_mm256_castsi256_si128(m), _mm256_castsi256_si128(e), top));
    sum1 = _mm256_add_epi64(sum1, square_terms(_mm256_extracti128_si256(m, 1), _mm256_extracti128_si256(e, 1), top));
  }
  int64_t sum = avx2::sum_lanes_64(_mm256_add_epi64(sum0, sum1));
  for (; i < d; ++i) sum += square_term(x[i], e_max);
  return sum;
}

ZU_TARGET_AVX2 void scale_row(const uint16_t* x, const uint16_t* weight, uint16_t* y, int64_t d, float r) {
  const __m256 factor = _mm256_set1_ps(r);
  int64_t i = 0;
  for (; i + 8 <= d; i += 8) {
    const __m256 h = avx2::round_bf16(_mm256_mul_ps(avx2::load_bf16(x + i), factor));
    avx2::store_bf16(y + i, _mm256_mul_ps(h, avx2::load_bf16(weight + i)));
  }
  for (; i < d; ++i) y[i] = scaled(x[i], r, weight[i]);
}

}  // namespace

void avx2(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const uint16_t* x = a.x + row * a.x_stride;
    const int e_max = largest_exponent(x, a.d);
    const float r = reciprocal_rms(sum_of_squares(x, a.d, e_max), e_max, a.d, a.eps);
    scale_row(x, a.weight, a.y + row * a.y_stride, a.d, r);
  }
}

}  // namespace zeroulp::ops::rmsnorm

#endif
