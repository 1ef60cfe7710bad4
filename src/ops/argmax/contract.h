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

std::span<const Variant<Fn>> variants();

}  // namespace zeroulp::ops::argmax
