// One thread per output: obvious and slow. What the other GPU variants are read against.
#include "ops/launch.cuh"
#include "ops/linear_s8/fast.h"

namespace zeroulp::ops::linear_s8 {
namespace {

__global__ void linear_s8_cuda_ref(Args a) {
  for (int64_t at = first_index(); at < a.rows * a.n; at += index_step()) {
    const int64_t row = at / a.n, channel = at % a.n;
    const int16_t* codes = a.codes + row * a.codes_stride;
    const int8_t* weights = a.weights + channel * a.weights_stride;
    int64_t acc = 0;
    for (int64_t i = 0; i < a.k; ++i) acc += int32_t{codes[i]} * weights[i];
    store(a, row, channel, acc);
  }
}

__global__ void linear_s8_store(Args a, const int64_t* sums) {
  for (int64_t at = first_index(); at < a.rows * a.n; at += index_step()) store(a, at / a.n, at % a.n, sums[at]);
}

}  // namespace

void cuda_ref(const Args& a, const device::Launch& l) {
  if (a.rows * a.n > 0) linear_s8_cuda_ref<<<blocks_for(a.rows * a.n, l), kThreads, 0, l.stream>>>(a);
}

void cuda_store(const Args& a, const int64_t* sums, const device::Launch& l) {
  if (a.rows * a.n > 0) linear_s8_store<<<blocks_for(a.rows * a.n, l), kThreads, 0, l.stream>>>(a, sums);
}

}  // namespace zeroulp::ops::linear_s8
