// One thread per pair.
#include "ops/launch.cuh"
#include "ops/rope/fast.h"

namespace zeroulp::ops::rope {
namespace {

__global__ void rope_kernel(Args a) {
  const int64_t half = a.d / 2, pairs = a.rows * a.heads * half;
  for (int64_t at = first_index(); at < pairs; at += index_step()) {
    const int64_t row = at / (a.heads * half), head = at / half % a.heads, i = at % half, entry = a.positions[row] * half + i;
    uint16_t* x = a.x + row * a.x_stride + head * a.d;
    const Pair y = rotate(x[i], x[i + half], a.cos[entry], a.sin[entry]);
    x[i] = y.first;
    x[i + half] = y.second;
  }
}

}  // namespace

void cuda(const Args& a, const device::Launch& l) {
  const int64_t pairs = a.rows * a.heads * (a.d / 2);
  if (pairs > 0) rope_kernel<<<blocks_for(pairs, l), kThreads, 0, l.stream>>>(a);
}

}  // namespace zeroulp::ops::rope
