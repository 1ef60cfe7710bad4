// store() by one warp.
#pragma once

#include "ops/kv_cache/fast.h"
#include "ops/launch.cuh"

namespace zeroulp::ops::kv_cache {

__device__ inline uint16_t warp_absmax(const uint16_t* x, int64_t d) {
  int32_t top = 0;
  for (int64_t i = threadIdx.x % 32; i < d; i += 32) top = max(top, x[i] & 0x7FFF);
  return static_cast<uint16_t>(warp_max(top));
}

// All lanes call it; k and v may be in device or shared memory. What store() returns.
__device__ inline bool store_warp(const View<std::byte>& view, const Layout& layout, int64_t slot, const uint16_t* k, const uint16_t* v) {
  const quant_rows::Quantiser key = key_row(warp_absmax(k, layout.d), layout.key_width);
  const ValueRow value = value_row(warp_absmax(v, layout.d));
  for (int64_t i = threadIdx.x % 32; i < layout.d; i += 32) {
    view.set_key(layout, slot, i, quant_rows::code(k[i], key.multiplier));
    view.values[i * kBlock + slot] = value_code(v[i], value.factor);
  }
  if (threadIdx.x % 32 == 0) {
    view.key_scales[slot] = value.fault ? num::bf16_to_float(num::kBf16Nan) : key.scale;
    view.value_exponents[slot] = value.exponent;
  }
  return !key.fault && !value.fault;
}

}  // namespace zeroulp::ops::kv_cache
