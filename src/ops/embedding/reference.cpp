#include "ops/embedding/reference.h"

namespace zeroulp::ops::embedding {

void reference(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const int64_t token = a.tokens[row];
    for (int64_t i = 0; i < a.k; ++i) a.y[row * a.k + i] = value(a.codes[token * a.k + i], a.scales[token]);
  }
}

}  // namespace zeroulp::ops::embedding
