// One thread per element.
#include "ops/launch.cuh"
#include "ops/silu_mul/fast.h"

namespace zeroulp::ops::silu_mul {
namespace {

__global__ void silu_mul_kernel(Args a) {
  for (int64_t i = first_index(); i < a.count; i += index_step()) a.y[i] = value(a.gate[i], a.up[i]);
}

}  // namespace

void cuda(const Args& a, const device::Launch& l) {
  if (a.count > 0) silu_mul_kernel<<<blocks_for(a.count, l), kThreads, 0, l.stream>>>(a);
}

}  // namespace zeroulp::ops::silu_mul
