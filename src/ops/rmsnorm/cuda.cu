// One block per row; rows of a few elements waste threads, which costs nothing that matters.
#include "ops/rmsnorm/fast.h"
#include "ops/rmsnorm/row.cuh"

namespace zeroulp::ops::rmsnorm {
namespace {

__global__ void rmsnorm_kernel(Args a) {
  __shared__ Scratch scratch;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const uint16_t* x = a.x + row * a.x_stride;
    uint16_t* y = a.y + row * a.y_stride;
    const float r = row_factor(x, a.d, a.eps, scratch);
    for (int64_t i = threadIdx.x; i < a.d; i += blockDim.x) y[i] = scaled(x[i], r, a.weight[i]);
    __syncthreads();  // the scratch is used again
  }
}

}  // namespace

void cuda(const Args& a, const device::Launch& l) {
  if (a.rows * a.d > 0) rmsnorm_kernel<<<row_blocks(a.rows), row_threads(a.d), 0, l.stream>>>(a);
}

}  // namespace zeroulp::ops::rmsnorm
