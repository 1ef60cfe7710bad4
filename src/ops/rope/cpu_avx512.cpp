#include "ops/rope/fast.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)

namespace zeroulp::ops::rope {
namespace {

ZU_TARGET_AVX512 void rotate_head(uint16_t* x, const uint16_t* c, const uint16_t* s, int64_t half) {
  for (int64_t i = 0; i < half; i += 16) {
    const __mmask16 lanes = avx512::first(half - i);
    const __m512 a = avx512::load_bf16(x + i, lanes), b = avx512::load_bf16(x + half + i, lanes);
    const __m512 cs = avx512::load_bf16(c + i, lanes), sn = avx512::load_bf16(s + i, lanes);
    avx512::store_bf16(x + i, _mm512_sub_ps(_mm512_mul_ps(a, cs), _mm512_mul_ps(b, sn)), lanes);
    avx512::store_bf16(x + half + i, _mm512_add_ps(_mm512_mul_ps(b, cs), _mm512_mul_ps(a, sn)), lanes);
  }
}

}  // namespace

void avx512_vnni(const Args& a) {
  const int64_t half = a.d / 2;
  for (int64_t row = 0; row < a.rows; ++row) {
    const int64_t at = a.positions[row] * half;
    for (int64_t head = 0; head < a.heads; ++head)
      rotate_head(a.x + row * a.x_stride + head * a.d, a.cos + at, a.sin + at, half);
  }
}

}  // namespace zeroulp::ops::rope

#endif
