// Embedding look-up (docs/contract.md, section 4): bf16(mul(sB, i2f(code))).
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "num/bf16.h"
#include "num/round.h"
#include "ops/op.h"

namespace zeroulp::ops::embedding {

struct Args {
  const int32_t* tokens;  // [rows], each in [0, vocabulary)
  int64_t rows, k;
  const int8_t* codes;  // [vocabulary, k]
  const float* scales;  // [vocabulary]
  uint16_t* y;          // bf16 [rows, k]
};
using Fn = void(const Args&);

ZU_HD inline uint16_t value(int8_t code, float scale) { return num::float_to_bf16(scale * num::i2f(int32_t{code})); }

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Args, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::embedding
