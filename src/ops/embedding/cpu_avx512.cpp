#include "ops/embedding/fast.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)

namespace zeroulp::ops::embedding {

ZU_TARGET_AVX512 void avx512_vnni(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const int8_t* codes = a.codes + a.tokens[row] * a.k;
    uint16_t* y = a.y + row * a.k;
    const __m512 scale = _mm512_set1_ps(a.scales[a.tokens[row]]);
    for (int64_t i = 0; i < a.k; i += 16) {
      const __mmask16 lanes = avx512::first(a.k - i);
      const __m512 q = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(lanes, codes + i)));
      avx512::store_bf16(y + i, _mm512_mul_ps(scale, q), lanes);
    }
  }
}

}  // namespace zeroulp::ops::embedding

#endif
