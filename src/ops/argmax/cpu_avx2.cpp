#include <bit>

#include "ops/argmax/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)

namespace zeroulp::ops::argmax {
// First the largest value, then the first place that equals it (as numbers: -0 equals +0).
ZU_TARGET_AVX2 void avx2(Args& a) {
  a.index = -1;
  const avx2::MaxScan all = avx2::scan_max(a.logits, a.count);
  if (!all.finite) return;
  const __m256 max = _mm256_set1_ps(all.max);
  int64_t i = 0;
  for (; i + 8 <= a.count; i += 8) {
    const int hit = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(a.logits + i), max, _CMP_EQ_OQ));
    if (hit == 0) continue;
    a.index = i + std::countr_zero(static_cast<unsigned>(hit));
    return;
  }
  while (a.logits[i] != all.max) ++i;
  a.index = i;
}

}  // namespace zeroulp::ops::argmax

#endif
