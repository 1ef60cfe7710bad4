// One block per row: the largest logit, then the exact sum.
#include "ops/argmax/contract.h"
#include "ops/launch.cuh"
#include "ops/nll/fast.h"

namespace zeroulp::ops::nll {
namespace {

constexpr int kRowThreads = 1024;

__global__ void nll_kernel(Rows a) {
  __shared__ uint64_t tops[32];
  __shared__ int64_t sums[32];
  const float* logits = a.logits + blockIdx.x * a.stride;
  uint64_t best = 0;
  for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) best = max(best, argmax::order_key(logits[i], static_cast<uint32_t>(i)));
  const int64_t index = argmax::index_of(block_max_u64(best, tops));
  if (index < 0) {
    if (threadIdx.x == 0) a.results[blockIdx.x] = -1;
    return;
  }
  const float top = logits[index];
  int64_t sum = 0;  // below 2^63: a vocabulary has less than 2^23 entries
  for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) sum += static_cast<int64_t>(term(logits[i], top));
  sum = block_sum(sum, sums);
  if (threadIdx.x == 0) a.results[blockIdx.x] = finish(static_cast<uint64_t>(sum), top, logits[a.targets[blockIdx.x]]);
}

}  // namespace

void cuda(const Rows& a, const device::Launch& l) {
  if (a.rows > 0) nll_kernel<<<static_cast<unsigned>(a.rows), kRowThreads, 0, l.stream>>>(a);
}

}  // namespace zeroulp::ops::nll
