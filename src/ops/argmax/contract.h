// Greedy choice (docs/contract.md, section 8): the lowest index of the largest logit; -0 equals +0; a logit that is NaN or
// infinite is an error wherever it stands.
#pragma once

#include <cstdint>

#include "num/bits.h"
#include "ops/op.h"

namespace zeroulp::ops::argmax {

struct Args {
  const float* logits;  // [count], count >= 1, vocabulary padding excluded
  int64_t count;
  int64_t index = -1;  // out; -1 when a logit is NaN or infinite
};
using Fn = void(Args&);

// Many rows at once, as a GPU takes them.
struct Rows {
  const float* logits;  // [rows, count], row stride `stride`
  int64_t stride, rows, count;
  int64_t* indices;  // [rows]; each as Args::index
};

// A logit's place in the order, for a maximum that any reduction may take: larger for larger logits, -0 as +0, among equals larger for the
// lower index, and above all of them for a logit that is NaN or infinite. 0 is below every key.
ZU_HD constexpr uint64_t order_key(float logit, uint32_t index) {
  if (!num::is_finite(logit)) return ~uint64_t{0};
  const uint32_t bits = logit == 0.0f ? 0u : num::bits_of(logit);
  const uint32_t ordered = (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
  return (uint64_t{ordered} << 32) | (0xFFFFFFFFu - index);
}
ZU_HD constexpr int64_t index_of(uint64_t largest_key) {
  return largest_key == ~uint64_t{0} ? -1 : int64_t{0xFFFFFFFFu - static_cast<uint32_t>(largest_key)};
}
static_assert(order_key(2.0f, 9) > order_key(1.0f, 3) && order_key(1.0f, 3) > order_key(1.0f, 4) && order_key(-1.0f, 0) < order_key(-0.5f, 7));
static_assert(index_of(order_key(-0.0f, 7)) == 7 && order_key(-0.0f, 7) < order_key(0.0f, 6));

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Rows, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::argmax
