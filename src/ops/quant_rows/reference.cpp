#include "ops/quant_rows/reference.h"

#include <algorithm>

namespace zeroulp::ops::quant_rows {

void reference(const Args& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const uint16_t* x = a.x + r * a.x_stride;
    int16_t* codes = a.codes + r * a.codes_stride;
    const uint16_t top = a.absmax ? a.absmax[r] : row_absmax(x, a.k);
    const float multiplier = begin_row(a, r, top);
    if (multiplier == 0) {
      std::fill(codes, codes + a.k, int16_t{0});
      continue;
    }
    for (int64_t i = 0; i < a.k; ++i) codes[i] = code(x[i], multiplier);
  }
}

}  // namespace zeroulp::ops::quant_rows
