// Rotary position embedding (docs/contract.md, section 5), pairs (i, i + d/2). Table entries are num/sincos.h: RNE to bf16 of the exact
// values. Products of two bf16 are exact in fp32, so a contraction cannot change them.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "num/bf16.h"
#include "num/sincos.h"
#include "ops/op.h"

namespace zeroulp::ops::rope {

struct Args {
  uint16_t* x;  // bf16 [rows, heads, d], row stride x_stride, heads d apart; rotated in place
  int64_t x_stride, rows, heads, d;
  const int32_t* positions;  // [rows]
  const uint16_t* cos;       // bf16 [max position + 1, d/2]
  const uint16_t* sin;
};
using Fn = void(const Args&);

// One entry of the table: num::sincos_bf16.
using TableFn = num::SinCosBf16(uint32_t position, float frequency, float factor);

struct Pair {
  uint16_t first, second;
};
ZU_HD inline Pair rotate(uint16_t x1, uint16_t x2, uint16_t c, uint16_t s) {
  const float a = num::bf16_to_float(x1), b = num::bf16_to_float(x2), cs = num::bf16_to_float(c), sn = num::bf16_to_float(s);
  return {num::float_to_bf16(a * cs - b * sn), num::float_to_bf16(b * cs + a * sn)};
}

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Args, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::rope
