// One block per row. The choice is one 64-bit maximum: the logit's order in the high half, the index from the end in the low half, so that
// the lowest index wins among equals.
#include "ops/argmax/fast.h"
#include "ops/launch.cuh"

namespace zeroulp::ops::argmax {
namespace {

constexpr int kRowThreads = 1024;

__global__ void argmax_kernel(Rows a) {
  __shared__ uint64_t tops[32];
  const float* logits = a.logits + blockIdx.x * a.stride;
  uint64_t best = 0;
  for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) best = max(best, order_key(logits[i], static_cast<uint32_t>(i)));
  best = block_max_u64(best, tops);
  if (threadIdx.x == 0) a.indices[blockIdx.x] = index_of(best);
}

}  // namespace

void cuda(const Rows& a, const device::Launch& l) {
  if (a.rows > 0) argmax_kernel<<<static_cast<unsigned>(a.rows), kRowThreads, 0, l.stream>>>(a);
}

}  // namespace zeroulp::ops::argmax
