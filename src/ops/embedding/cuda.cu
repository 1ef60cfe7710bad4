// One block per row.
#include "ops/embedding/fast.h"
#include "ops/launch.cuh"

namespace zeroulp::ops::embedding {
namespace {

__global__ void embedding_kernel(Args a) {
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int64_t token = a.tokens[row];
    const float scale = a.scales[token];
    for (int64_t i = threadIdx.x; i < a.k; i += blockDim.x) a.y[row * a.k + i] = value(a.codes[token * a.k + i], scale);
  }
}

}  // namespace

void cuda(const Args& a, const device::Launch& l) {
  if (a.rows * a.k > 0) embedding_kernel<<<row_blocks(a.rows), kThreads, 0, l.stream>>>(a);
}

}  // namespace zeroulp::ops::embedding
