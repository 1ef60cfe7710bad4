// The GPU's variant.
#pragma once

#include "ops/kv_cache/contract.h"

namespace zeroulp::ops::kv_cache {

// Many positions and heads at once.
struct Rows {
  Layout layout;
  int64_t rows, heads;
  const uint16_t* k;  // bf16 [rows, heads, d], row stride k_stride, heads d apart
  int64_t k_stride;
  const uint16_t* v;
  int64_t v_stride;
  const int32_t* positions;  // [rows]
  Pages pages;
  uint8_t* faults;  // [rows], set to 1 where store() returns false
};

void cuda(const Rows& args, const device::Launch& launch);

}  // namespace zeroulp::ops::kv_cache
