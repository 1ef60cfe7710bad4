// Residual addition (docs/contract.md, section 4): x = bf16(add(x, y)), both bf16.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "num/bf16.h"
#include "ops/op.h"

namespace zeroulp::ops::residual {

struct Args {
  uint16_t* x;        // bf16 [count], read and written
  const uint16_t* y;  // bf16 [count]
  int64_t count;
};
using Fn = void(const Args&);

ZU_HD inline uint16_t sum(uint16_t x, uint16_t y) { return num::float_to_bf16(num::bf16_to_float(x) + num::bf16_to_float(y)); }

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Args, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::residual
