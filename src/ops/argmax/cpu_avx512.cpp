#include <bit>

#include "ops/argmax/fast.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)

namespace zeroulp::ops::argmax {
// First the largest value, then the first place that equals it (as numbers: -0 equals +0).
ZU_TARGET_AVX512 void avx512_vnni(Args& a) {
  a.index = -1;
  const avx512::MaxScan all = avx512::scan_max(a.logits, a.count);
  if (!all.finite) return;
  const __m512 max = _mm512_set1_ps(all.max);
  for (int64_t i = 0; i < a.count; i += 16) {
    const __mmask16 lanes = avx512::first(a.count - i);
    const __mmask16 hit = _mm512_mask_cmp_ps_mask(lanes, _mm512_maskz_loadu_ps(lanes, a.logits + i), max, _CMP_EQ_OQ);
    if (hit == 0) continue;
    a.index = i + std::countr_zero(static_cast<unsigned>(hit));
    return;
  }
}

}  // namespace zeroulp::ops::argmax

#endif
