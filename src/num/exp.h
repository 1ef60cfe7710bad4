// The natural exponential for the float reference path and for statistics; no part of the contract (num/exp2.h has its exponentials).
// One sequence of fma and an exact power of two, so that a vectorised loop gives the same bits as a scalar one.
#pragma once

#include <algorithm>
#include <cmath>

#include "num/bits.h"

namespace zeroulp::num {

// Arguments are clamped to [-87.3, 88.7], so results are normal numbers. Error at most 1 unit in the last place (tests/num/exp_test.cpp).
inline float exp_f32(float x) {
  x = std::min(std::max(x, -87.3f), 88.7f);
  const float k = std::fma(x, 0x1.715476p+0f, 12582912.0f) - 12582912.0f;  // nearest integer to x / ln 2
  float r = std::fma(k, -0x1.62e43p-1f, x);                                // ln 2 in two parts
  r = std::fma(k, 0x1.05c61p-29f, r);
  float p = std::fma(r, 0x1.6a2364p-10f, 0x1.123a6ap-7f);
  p = std::fma(r, p, 0x1.5558f4p-5f);
  p = std::fma(r, p, 0x1.555490p-3f);
  p = std::fma(r, p, 0x1.fffffcp-2f);
  p = std::fma(r * r, p, r) + 1.0f;
  const int whole = static_cast<int>(k);  // up to 128: two steps, each a power that exists
  return p * pow2(whole >> 1) * pow2(whole - (whole >> 1));
}

}  // namespace zeroulp::num
