#include "ops/embedding/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)

namespace zeroulp::ops::embedding {

ZU_TARGET_AVX2 void avx2(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const int8_t* codes = a.codes + a.tokens[row] * a.k;
    uint16_t* y = a.y + row * a.k;
    const float scale = a.scales[a.tokens[row]];
    int64_t i = 0;
    for (; i + 8 <= a.k; i += 8) {
      const __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i)));
      avx2::store_bf16(y + i, _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(q)));
    }
    for (; i < a.k; ++i) y[i] = value(codes[i], scale);
  }
}

}  // namespace zeroulp::ops::embedding

#endif
