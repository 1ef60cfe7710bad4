#include "ops/nll/fast.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)

namespace zeroulp::ops::nll {
namespace {

ZU_TARGET_AVX512 uint64_t sum_of_terms(const float* logits, int64_t count, float max) {
  const __m512 top = _mm512_set1_ps(max), log2e = _mm512_set1_ps(num::kLog2E), unit = _mm512_set1_ps(0x1p40f);
  __m512i sum0 = _mm512_setzero_si512(), sum1 = sum0;
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = avx512::first(count - i);
    const __m512 d = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, logits + i), top), log2e);
    const __m512 t = _mm512_maskz_mul_ps(lanes, unit, avx512::exp2_5(d));
    sum0 = _mm512_add_epi64(sum0, _mm512_cvtps_epi64(_mm512_castps512_ps256(t)));
    sum1 = _mm512_add_epi64(sum1, _mm512_cvtps_epi64(_mm512_extractf32x8_ps(t, 1)));
  }
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(sum0, sum1)));
}

}  // namespace

void avx512_vnni(Args& a) {
  const avx512::MaxScan all = avx512::scan_max(a.logits, a.count);
  a.result = all.finite ? finish(sum_of_terms(a.logits, a.count, all.max), all.max, a.logits[a.target]) : -1;
}

}  // namespace zeroulp::ops::nll

#endif
