// SiLU and multiply (docs/contract.md, section 4): bf16(mul(bf16(silu(g)), u)), silu(g) = div_rn(g, add(1, exp2_5(mul(-g, log2e)))).
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "num/bf16.h"
#include "num/exp2.h"
#include "ops/op.h"

namespace zeroulp::ops::silu_mul {

struct Args {
  const uint16_t* gate;  // bf16 [count]
  const uint16_t* up;    // bf16 [count]
  int64_t count;
  uint16_t* y;  // bf16 [count]; may be gate or up
};
using Fn = void(const Args&);

ZU_HD inline uint16_t silu(uint16_t gate) {
  const float g = num::bf16_to_float(gate);
  return num::float_to_bf16(g / (1.0f + num::exp2_5(-g * num::kLog2E)));
}
ZU_HD inline uint16_t value(uint16_t gate, uint16_t up) {
  return num::float_to_bf16(num::bf16_to_float(silu(gate)) * num::bf16_to_float(up));
}

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Args, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::silu_mul
