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

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Rows, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::argmax
