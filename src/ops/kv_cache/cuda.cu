// One warp per row and head.
#include "ops/kv_cache/store.cuh"

namespace zeroulp::ops::kv_cache {
namespace {

__global__ void kv_store_kernel(Rows a) {
  for (int64_t item = first_index() / 32; item < a.rows * a.heads; item += index_step() / 32) {
    const int64_t row = item / a.heads, head = item % a.heads, d = a.layout.d, position = a.positions[row];
    const View<std::byte> view(a.pages.block(row, position / kBlock, head), a.layout);
    const bool good = store_warp(view, a.layout, position % kBlock, a.k + row * a.k_stride + head * d, a.v + row * a.v_stride + head * d);
    if (!good && threadIdx.x % 32 == 0) a.faults[row] = 1;
  }
}

}  // namespace

void cuda(const Rows& a, const device::Launch& l) {
  if (a.rows * a.heads > 0) kv_store_kernel<<<blocks_for(a.rows * a.heads * 32, l), kThreads, 0, l.stream>>>(a);
}

}  // namespace zeroulp::ops::kv_cache
