#include "ops/nll/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)

namespace zeroulp::ops::nll {
namespace {

// rne64 of four numbers in [0, 2^51]: adding 2^52 leaves the rounded integer in the fraction bits.
ZU_TARGET_AVX2 __m256i to_integer(__m128 v) {
  const __m256d magic = _mm256_set1_pd(0x1p52);
  return _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(_mm256_cvtps_pd(v), magic)), _mm256_castpd_si256(magic));
}

ZU_TARGET_AVX2 uint64_t sum_of_terms(const float* logits, int64_t count, float max) {
  const __m256 top = _mm256_set1_ps(max), log2e = _mm256_set1_ps(num::kLog2E), unit = _mm256_set1_ps(0x1p40f);
  __m256i sum0 = _mm256_setzero_si256(), sum1 = sum0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 d = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(logits + i), top), log2e);
    const __m256 t = _mm256_mul_ps(unit, avx2::exp2_5(d));
    sum0 = _mm256_add_epi64(sum0, to_integer(_mm256_castps256_ps128(t)));
    sum1 = _mm256_add_epi64(sum1, to_integer(_mm256_extractf128_ps(t, 1)));
  }
  auto sum = static_cast<uint64_t>(avx2::sum_lanes_64(_mm256_add_epi64(sum0, sum1)));
  for (; i < count; ++i) sum += term(logits[i], max);
  return sum;
}

}  // namespace

void avx2(Args& a) {
  const avx2::MaxScan all = avx2::scan_max(a.logits, a.count);
  a.result = all.finite ? finish(sum_of_terms(a.logits, a.count, all.max), all.max, a.logits[a.target]) : -1;
}

}  // namespace zeroulp::ops::nll

#endif
