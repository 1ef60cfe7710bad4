#include "ops/silu_mul/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)

namespace zeroulp::ops::silu_mul {

ZU_TARGET_AVX2 void avx2(const Args& a) {
  const __m256 one = _mm256_set1_ps(1.0f), minus_log2e = _mm256_set1_ps(-num::kLog2E);
  int64_t i = 0;
  for (; i + 8 <= a.count; i += 8) {
    const __m256 g = avx2::load_bf16(a.gate + i), u = avx2::load_bf16(a.up + i);
    const __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, avx2::exp2_5(_mm256_mul_ps(g, minus_log2e))));
    avx2::store_bf16(a.y + i, _mm256_mul_ps(avx2::round_bf16(silu), u));
  }
  for (; i < a.count; ++i) a.y[i] = value(a.gate[i], a.up[i]);
}

}  // namespace zeroulp::ops::silu_mul

#endif
