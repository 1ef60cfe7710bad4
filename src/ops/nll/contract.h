// Negative log-likelihood of a target under the logits (docs/contract.md, section 8), in units of 2^-24 bits: an integer, so that sums
// over tokens depend on no order.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "num/exp2.h"
#include "num/round.h"
#include "ops/op.h"

namespace zeroulp::ops::nll {

struct Args {
  const float* logits;  // [count], count >= 1, finite
  int64_t count;
  int64_t target;      // in [0, count)
  int64_t result = 0;  // out: -log2 p(target) * 2^24; -1 when a logit is NaN or infinite, or the target too far below
};
using Fn = void(Args&);

// Many rows at once, as a GPU takes them.
struct Rows {
  const float* logits;  // [rows, count], row stride `stride`
  int64_t stride, rows, count;
  const int64_t* targets;  // [rows]
  int64_t* results;        // [rows]; each as Args::result
};

// One term of S: rne(2^40 * exp2_5(mul(sub(l, M), log2e))).
ZU_HD inline uint64_t term(float logit, float max) {
  return static_cast<uint64_t>(num::rne64(0x1p40f * num::exp2_5((logit - max) * num::kLog2E)));
}

// log2(v) * 2^24 for v >= 1: integer part, then 24 bits by repeated squaring of the 64-bit significand, high product truncated.
ZU_HD constexpr int64_t log2_q24(uint64_t v) {
  const int top = 63 - num::leading_zeros(v);
  uint64_t m = v << (63 - top);
  int64_t result = int64_t{top} << 24;
  for (int bit = 23; bit >= 0; --bit) {
    __extension__ using u128 = unsigned __int128;
    const auto square = static_cast<uint64_t>((static_cast<u128>(m) * m) >> 64);
    if (square >> 63) {
      result |= int64_t{1} << bit;
      m = square;
    } else {
      m = square << 1;
    }
  }
  return result;
}
static_assert(log2_q24(1) == 0 && log2_q24(uint64_t{1} << 40) == int64_t{40} << 24);
static_assert(log2_q24(3) == 26591258, "log2(3) * 2^24 = 26591258.1");

// From S to the result. A target 2^22 bits or more below the maximum is a range error, as a score of that size is in attention.
ZU_HD inline int64_t finish(uint64_t sum, float max, float target_logit) {
  const float below = (max - target_logit) * num::kLog2E;
  if (!(below < 0x1p22f)) return -1;
  return log2_q24(sum) - (int64_t{40} << 24) + num::rne64(0x1p24f * below);
}

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Rows, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::nll
