#include "ops/linear_s8/reference.h"

namespace zeroulp::ops::linear_s8 {

void reference(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const int16_t* codes = a.codes + row * a.codes_stride;
    for (int64_t channel = 0; channel < a.n; ++channel) {
      const int8_t* weights = a.weights + channel * a.weights_stride;
      int64_t acc = 0;
      for (int64_t i = 0; i < a.k; ++i) acc += int64_t{codes[i]} * weights[i];
      store(a, row, channel, acc);
    }
  }
}

}  // namespace zeroulp::ops::linear_s8
