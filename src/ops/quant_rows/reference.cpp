#include "ops/quant_rows/reference.h"

#include <algorithm>

namespace zeroulp::ops::quant_rows {

void reference(const Args& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const uint16_t* x = a.x + r * a.x_stride;
    int16_t* codes = a.codes + r * a.codes_stride;
    const uint16_t top = a.absmax ? a.absmax[r] : row_absmax(x, a.k);
    const RowKind kind = classify(top, a.range);
    if (kind != RowKind::kNormal) {
      std::fill(codes, codes + a.k, int16_t{0});
      a.scales[r] = kind == RowKind::kTiny ? 1.0f : num::bf16_to_float(num::kBf16Nan);
      if (kind == RowKind::kFault) a.faults[r] = 1;
      continue;
    }
    const float largest = num::bf16_to_float(top);
    const float multiplier = num::quant_multiplier(largest, a.width);
    a.scales[r] = num::quant_scale(largest, a.width);
    for (int64_t i = 0; i < a.k; ++i) codes[i] = static_cast<int16_t>(num::quant_code(num::bf16_to_float(x[i]), multiplier));
  }
}

}  // namespace zeroulp::ops::quant_rows
