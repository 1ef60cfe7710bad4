// A block's share of quantising one row.
#pragma once

#include "ops/launch.cuh"
#include "ops/quant_rows/contract.h"

namespace zeroulp::ops::quant_rows {

struct Scratch {
  int32_t tops[32];
};

// The largest magnitude of a row, on every thread.
__device__ inline uint16_t block_absmax(const uint16_t* x, int64_t k, Scratch& scratch) {
  int32_t top = 0;
  for (int64_t i = threadIdx.x; i < k; i += blockDim.x) top = max(top, x[i] & 0x7FFF);
  return static_cast<uint16_t>(block_max(top, scratch.tops));
}

// Codes, scale and fault of row `row` of `a`, whose values are x[0..k). Every thread calls it.
__device__ inline void quantize_row(const Args& a, int64_t row, const uint16_t* x, uint16_t top) {
  const Quantiser q = quantiser(top, a.width, a.range);
  int16_t* codes = a.codes + row * a.codes_stride;
  for (int64_t i = threadIdx.x; i < a.k; i += blockDim.x) codes[i] = code(x[i], q.multiplier);
  if (threadIdx.x != 0) return;
  a.scales[row] = q.scale;
  if (q.fault) a.faults[row] = 1;
}

}  // namespace zeroulp::ops::quant_rows
