#include "ops/residual/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)

namespace zeroulp::ops::residual {

ZU_TARGET_AVX2 void avx2(const Args& a) {
  int64_t i = 0;
  for (; i + 8 <= a.count; i += 8) avx2::store_bf16(a.x + i, _mm256_add_ps(avx2::load_bf16(a.x + i), avx2::load_bf16(a.y + i)));
  for (; i < a.count; ++i) a.x[i] = sum(a.x[i], a.y[i]);
}

}  // namespace zeroulp::ops::residual

#endif
