#include "ops/rope/reference.h"

namespace zeroulp::ops::rope {

void reference(const Args& a) {
  const int64_t half = a.d / 2;
  for (int64_t row = 0; row < a.rows; ++row) {
    const uint16_t* c = a.cos + a.positions[row] * half;
    const uint16_t* s = a.sin + a.positions[row] * half;
    for (int64_t head = 0; head < a.heads; ++head) {
      uint16_t* x = a.x + row * a.x_stride + head * a.d;
      for (int64_t i = 0; i < half; ++i) {
        const Pair y = rotate(x[i], x[i + half], c[i], s[i]);
        x[i] = y.first;
        x[i + half] = y.second;
      }
    }
  }
}

}  // namespace zeroulp::ops::rope
