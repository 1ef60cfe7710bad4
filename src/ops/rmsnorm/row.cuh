// A block's share of one row of RMSNorm: the row's factor, by exact integer reductions.
#pragma once

#include "ops/launch.cuh"
#include "ops/rmsnorm/contract.h"

namespace zeroulp::ops::rmsnorm {

struct Scratch {
  int64_t sums[32];
  int32_t tops[32];
};

// Every thread of the block calls it and gets the factor r. x may be in device or shared memory and is only read.
__device__ inline float row_factor(const uint16_t* x, int64_t d, float eps, Scratch& scratch) {
  int32_t top = 1;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) top = max(top, exponent_of(x[i]));
  top = block_max(top, scratch.tops);
  int64_t sum = 0;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) sum += square_term(x[i], top);
  return reciprocal_rms(block_sum(sum, scratch.sums), top, d, eps);
}

}  // namespace zeroulp::ops::rmsnorm
