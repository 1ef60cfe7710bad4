// cos and sin of position * frequency, correctly rounded to bfloat16: the RoPE table's entries (docs/contract.md, "RoPE").
#pragma once

#include <cstdint>

namespace zeroulp::num {

struct SinCosBf16 {
  uint16_t cos, sin;
};

// RNE to bf16 of factor * cos(x) and factor * sin(x) for the exact product x = position * frequency. Integer arithmetic with 256 bits of
// 2/pi and 128-bit series; error before the rounding below 2^-100. position < 2^29; frequency a normal float in [2^-60, 2^20);
// factor a normal float in [2^-20, 2^20]. tests/num/sincos_test.cpp compares with MPFR.
SinCosBf16 sincos_bf16(uint32_t position, float frequency, float factor = 1.0f);

}  // namespace zeroulp::num
