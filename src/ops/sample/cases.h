// The inputs that every implementation of sampling must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/sample/contract.h"

namespace zeroulp::ops::sample {

struct DrawArgs {
  const float* logits;  // [count]
  int64_t count;
  Settings settings;
  uint32_t position;
  uint64_t request;
  int64_t token = -1;  // out
};
using DrawFn = void(DrawArgs&);

void draw_one(DrawArgs& args);  // by a Sampler of its own

void cases(const conformance::Visit<DrawFn>& visit);

}  // namespace zeroulp::ops::sample
