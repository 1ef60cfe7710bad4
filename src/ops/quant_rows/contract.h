// Activation quantiser (docs/contract.md, section 1): rows of bf16 to integer codes with one fp32 scale per row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/host_device.h"
#include "num/quant.h"
#include "ops/op.h"

namespace zeroulp::ops::quant_rows {

struct Args {
  const uint16_t* x;  // bf16 [rows, k], row stride x_stride
  int64_t x_stride, rows, k;
  int width;            // 8: codes to 127; 15: codes to 16256
  num::RowRange range;  // see num/quant.h
  const uint16_t*
      absmax;      // [rows], the rows' largest magnitudes when they are known (tensor parallelism); or null: computed here
  int16_t* codes;  // [rows, k], row stride codes_stride
  int64_t codes_stride;
  float* scales;    // [rows]
  uint8_t* faults;  // [rows], set to 1 for a row with NaN, Inf or a magnitude above the range; otherwise left alone
};
using Fn = void(const Args&);

// The integer maximum of bits & 0x7fff: order-free, and NaN and Inf come out on top.
ZU_HD inline uint16_t row_absmax(const uint16_t* x, int64_t k) {
  uint16_t a = 0;
  for (int64_t i = 0; i < k; ++i) a = std::max<uint16_t>(a, x[i] & 0x7FFF);
  return a;
}

// A row outside the range. Faulted rows get codes 0 and a NaN scale, so that every value computed from them is NaN (0x7FC0).
enum class RowKind { kNormal, kTiny, kFault };
ZU_HD inline RowKind classify(uint16_t a, const num::RowRange& range) {
  return a > range.max_bits ? RowKind::kFault : a < range.min_bits ? RowKind::kTiny : RowKind::kNormal;
}

// How a row with the largest magnitude `top` is quantised: code(x, multiplier); a multiplier of 0 makes every code 0.
struct Quantiser {
  float scale, multiplier;
  bool fault;
};
ZU_HD inline Quantiser quantiser(uint16_t top, int width, const num::RowRange& range) {
  const float largest = num::bf16_to_float(top);
  switch (classify(top, range)) {
    case RowKind::kNormal:
      if (range.pow2_scale) {
        const int e = num::pow2_scale_exponent(top, width);
        return {num::pow2(e), num::pow2(-e), false};
      }
      return {num::quant_scale(largest, width), num::quant_multiplier(largest, width), false};
    case RowKind::kTiny: return {1.0f, 0.0f, false};
    default: return {num::bf16_to_float(num::kBf16Nan), 0.0f, true};
  }
}

// Sets the scale and the fault of a row whose largest magnitude is `top`. Returns what x is multiplied by to give its code; 0 when every
// code of the row is 0.
ZU_HD inline float begin_row(const Args& a, int64_t row, uint16_t top) {
  const Quantiser q = quantiser(top, a.width, a.range);
  if (q.fault) a.faults[row] = 1;
  a.scales[row] = q.scale;
  return q.multiplier;
}

// One code of a row with this multiplier.
ZU_HD inline int16_t code(uint16_t x, float multiplier) {
  return multiplier == 0 ? int16_t{0} : static_cast<int16_t>(num::quant_code(num::bf16_to_float(x), multiplier));
}

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Args, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::quant_rows
