#include "ops/silu_mul/fast.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)

namespace zeroulp::ops::silu_mul {

ZU_TARGET_AVX512 void avx512_vnni(const Args& a) {
  const __m512 one = _mm512_set1_ps(1.0f), minus_log2e = _mm512_set1_ps(-num::kLog2E);
  for (int64_t i = 0; i < a.count; i += 16) {
    const __mmask16 lanes = avx512::first(a.count - i);
    const __m512 g = avx512::load_bf16(a.gate + i, lanes), u = avx512::load_bf16(a.up + i, lanes);
    const __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, avx512::exp2_5(_mm512_mul_ps(g, minus_log2e))));
    avx512::store_bf16(a.y + i, _mm512_mul_ps(avx512::round_bf16(silu), u), lanes);
  }
}

}  // namespace zeroulp::ops::silu_mul

#endif
