#include "ops/mutants/dot.h"

#include <algorithm>
#include <cmath>

#include "ops/op.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zeroulp::ops::mutants {
namespace {

int32_t plain_s16_s8(const int16_t* a, const int8_t* b, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += int32_t{a[i]} * b[i];
  return sum;
}

int64_t plain_saturating(const int8_t* a, const int8_t* b, int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; i += 2) {
    const int32_t pair = (a[i] + 128) * b[i] + (i + 1 < n ? (a[i + 1] + 128) * b[i + 1] : 0);
    sum += pair < -32768 ? -32768 : pair > 32767 ? 32767 : pair;
  }
  return sum;
}

void plain_f32(const float* a, const float* b, int64_t begin, int64_t n, float* lanes) {
  for (int64_t i = begin; i < n; ++i) lanes[i % 8] = std::fma(a[i], b[i], lanes[i % 8]);
}

float pairwise(const float* lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

#if defined(__x86_64__)
ZU_TARGET_AVX2 __m256i load_s8_as_s16(const int8_t* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
ZU_TARGET_AVX2 int32_t sum_of(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

ZU_TARGET_AVX2 int32_t avx2_s16_s8(const int16_t* a, const int8_t* b, int64_t n) {
  __m256i sum = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i)), load_s8_as_s16(b + i)));
  return sum_of(sum) + plain_s16_s8(a + i, b + i, n - i);
}

ZU_TARGET_AVX2 int64_t avx2_saturating(const int8_t* a, const int8_t* b, int64_t n) {
  const __m256i ones = _mm256_set1_epi16(1), top = _mm256_set1_epi8(-128);
  int64_t total = 0, i = 0;
  while (i + 32 <= n) {
    __m256i sum = _mm256_setzero_si256();
    for (const int64_t end = std::min(n, i + 32 * 4096); i + 32 <= end; i += 32) {
      const __m256i u = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i)), top);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(u, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i))), ones));
    }
    total += sum_of(sum);
  }
  return total + plain_saturating(a + i, b + i, n - i);
}

// Several rows at once: an fma takes four cycles, and one row's next waits for it.
template <int kRows>
ZU_TARGET_AVX2 void avx2_f32(const float* a, const float* b, int64_t n, float* out) {
  __m256 sums[kRows];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 w = _mm256_loadu_ps(b + i);
    for (int r = 0; r < kRows; ++r) sums[r] = _mm256_fmadd_ps(_mm256_loadu_ps(a + r * n + i), w, sums[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    float lanes[8];
    _mm256_storeu_ps(lanes, sums[r]);
    plain_f32(a + r * n, b, i, n, lanes);
    out[r] = pairwise(lanes);
  }
}
#endif

bool has_avx2() {
#if defined(__x86_64__)
  return cpu_features().avx2;
#else
  return false;
#endif
}

}  // namespace

int32_t dot_s16_s8(const int16_t* a, const int8_t* b, int64_t n) {
#if defined(__x86_64__)
  if (has_avx2()) return avx2_s16_s8(a, b, n);
#endif
  return plain_s16_s8(a, b, n);
}

int64_t dot_saturating_pairs(const int8_t* a, const int8_t* b, int64_t n) {
#if defined(__x86_64__)
  if (has_avx2()) return avx2_saturating(a, b, n);
#endif
  return plain_saturating(a, b, n);
}

void dots_f32(const float* a, int64_t rows, const float* b, int64_t n, float* out) {
  int64_t r = 0;
#if defined(__x86_64__)
  if (has_avx2()) {
    for (; r + 8 <= rows; r += 8) avx2_f32<8>(a + r * n, b, n, out + r);
    for (; r < rows; ++r) avx2_f32<1>(a + r * n, b, n, out + r);
  }
#endif
  for (; r < rows; ++r) {
    float lanes[8] = {};
    plain_f32(a + r * n, b, 0, n, lanes);
    out[r] = pairwise(lanes);
  }
}

}  // namespace zeroulp::ops::mutants
