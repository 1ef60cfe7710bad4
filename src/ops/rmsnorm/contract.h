// RMSNorm (docs/contract.md, section 3), also used per head as QK-norm. The sum of squares is an exact integer: order-free.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "num/bf16.h"
#include "num/bits.h"
#include "num/round.h"
#include "ops/op.h"

namespace zeroulp::ops::rmsnorm {

inline constexpr int64_t kMaxD = 1 << 21;  // sum of D terms below 2^42 stays inside int64

struct Args {
  const uint16_t* x;  // bf16 [rows, d], row stride x_stride
  int64_t x_stride, rows, d;
  const uint16_t* weight;  // bf16 [d]
  float eps;  // above zero
  uint16_t* y;  // bf16 [rows, d], row stride y_stride; may be x itself
  int64_t y_stride;
};
using Fn = void(const Args&);

// x = m * 2^(e - 134) with e = max(1, exponent field) and m with the hidden bit.
ZU_HD inline int exponent_of(uint16_t x) { return std::max(1, (x >> 7) & 0xFF); }
ZU_HD inline int64_t significand_of(uint16_t x) { return (x & 0x7F) | ((x & 0x7F80) ? 0x80 : 0); }

// floor(m^2 * 2^(26 - 2 (e_max - e))).
ZU_HD inline int64_t square_term(uint16_t x, int e_max) {
  const int64_t m = significand_of(x);
  const int shift = 26 - 2 * (e_max - exponent_of(x));
  return shift >= 0 ? m * m << shift : shift > -64 ? m * m >> -shift : 0;
}

// 1 / sqrt(mean of squares + eps) from the integer sum. A mean that overflows (also by an Inf or NaN in the row) makes the whole row NaN:
// 1 / sqrt(Inf) = 0 would turn it into zeros that no later range check could notice.
ZU_HD inline float reciprocal_rms(int64_t sum, int e_max, int64_t d, float eps) {
  const float mean = num::ldexp_rn(num::i2f(sum), 2 * (e_max - 134) - 26) / static_cast<float>(d);
  return num::is_finite(mean) ? 1.0f / std::sqrt(mean + eps) : num::bf16_to_float(num::kBf16Nan);
}

ZU_HD inline uint16_t scaled(uint16_t x, float r, uint16_t weight) {
  const uint16_t h = num::float_to_bf16(num::bf16_to_float(x) * r);
  return num::float_to_bf16(num::bf16_to_float(h) * num::bf16_to_float(weight));
}

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Args, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::rmsnorm
