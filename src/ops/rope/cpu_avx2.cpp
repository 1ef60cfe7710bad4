#include "ops/rope/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)

namespace zeroulp::ops::rope {
namespace {

ZU_TARGET_AVX2 void rotate_head(uint16_t* x, const uint16_t* c, const uint16_t* s, int64_t half) {
  int64_t i = 0;
  for (; i + 8 <= half; i += 8) {
    const __m256 a = avx2::load_bf16(x + i), b = avx2::load_bf16(x + half + i);
    const __m256 cs = avx2::load_bf16(c + i), sn = avx2::load_bf16(s + i);
    avx2::store_bf16(x + i, _mm256_sub_ps(_mm256_mul_ps(a, cs), _mm256_mul_ps(b, sn)));
    avx2::store_bf16(x + half + i, _mm256_add_ps(_mm256_mul_ps(b, cs), _mm256_mul_ps(a, sn)));
  }
  for (; i < half; ++i) {
    const Pair y = rotate(x[i], x[i + half], c[i], s[i]);
    x[i] = y.first;
    x[i + half] = y.second;
  }
}

}  // namespace

void avx2(const Args& a) {
  const int64_t half = a.d / 2;
  for (int64_t row = 0; row < a.rows; ++row) {
    const int64_t at = a.positions[row] * half;
    for (int64_t head = 0; head < a.heads; ++head)
      rotate_head(a.x + row * a.x_stride + head * a.d, a.cos + at, a.sin + at, half);
  }
}

}  // namespace zeroulp::ops::rope

#endif
