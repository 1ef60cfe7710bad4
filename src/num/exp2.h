// The two exponentials of the contract (docs/contract.md, "exp2"). Built from add, sub, fma and an exact power of two, so CPU, CUDA
// and Triton give the same bits. Coefficients are minimax fits on [-1/2, 1/2] with value 1 at 0.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/host_device.h"
#include "num/bits.h"

namespace zeroulp::num {

inline constexpr float kLog2E = 0x1.715476p+0f;

// For |d| < 2^22: the nearest integer (ties to even) by adding and subtracting 1.5 * 2^23, and the rest.
struct Split {
  float whole, rest;
};
ZU_HD inline Split split_nearest(float d) {
  const float k = (d + 12582912.0f) - 12582912.0f;
  return {k, d - k};
}

// Attention: d <= 0, any size; arguments below -126 count as -126. Relative error 1.01e-4; never above 1.
ZU_HD inline float exp2_3(float d) {
  const auto [k, f] = split_nearest(std::max(d, -126.0f));
  const float p = std::fma(f, std::fma(f, std::fma(f, 0x1.c2a178p-5f, 0x1.f00c10p-3f), 0x1.62f5fap-1f), 1.0f);
  return p * pow2(static_cast<int>(k));
}

// Elsewhere: arguments are clamped to [-126, 126]. Relative error of the fit 9.2e-8.
ZU_HD inline float exp2_5(float d) {
  const auto [k, f] = split_nearest(std::min(std::max(d, -126.0f), 126.0f));
  float p = std::fma(f, 0x1.5bb9ecp-10f, 0x1.3cea82p-7f);
  p = std::fma(f, p, 0x1.c6b754p-5f);
  p = std::fma(f, p, 0x1.ebf9bcp-3f);
  p = std::fma(f, p, 0x1.62e42ap-1f);
  p = std::fma(f, p, 1.0f);
  return p * pow2(static_cast<int>(k));
}

}  // namespace zeroulp::num
