#include "ops/rmsnorm/reference.h"

namespace zeroulp::ops::rmsnorm {

void reference(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const uint16_t* x = a.x + row * a.x_stride;
    int e_max = 1;
    for (int64_t i = 0; i < a.d; ++i) e_max = std::max(e_max, exponent_of(x[i]));
    int64_t sum = 0;
    for (int64_t i = 0; i < a.d; ++i) sum += square_term(x[i], e_max);
    const float r = reciprocal_rms(sum, e_max, a.d, a.eps);
    for (int64_t i = 0; i < a.d; ++i) a.y[row * a.y_stride + i] = scaled(x[i], r, a.weight[i]);
  }
}

}  // namespace zeroulp::ops::rmsnorm
