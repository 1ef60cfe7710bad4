#include "ops/residual/fast.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)

namespace zeroulp::ops::residual {

ZU_TARGET_AVX512 void avx512_vnni(const Args& a) {
  for (int64_t i = 0; i < a.count; i += 16) {
    const __mmask16 lanes = avx512::first(a.count - i);
    avx512::store_bf16(a.x + i, _mm512_add_ps(avx512::load_bf16(a.x + i, lanes), avx512::load_bf16(a.y + i, lanes)), lanes);
  }
}

}  // namespace zeroulp::ops::residual

#endif
