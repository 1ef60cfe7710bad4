// What the plain kernels share: grid-stride loops over 64-bit indices, and exact integer reductions, which no order can change.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "device/device.h"

namespace zeroulp::ops {

inline constexpr int kThreads = 256;

// Enough blocks for one element per thread, at most eight per multiprocessor: the rest is a loop.
inline unsigned blocks_for(int64_t count, const device::Launch& l, int threads = kThreads) {
  return static_cast<unsigned>(std::max<int64_t>(1, std::min((count + threads - 1) / threads, int64_t{8} * l.multiprocessors)));
}

// One block per row, as many as a grid can have; the rest is a loop. As many threads as a row keeps busy.
inline unsigned row_blocks(int64_t rows) { return static_cast<unsigned>(std::min<int64_t>(rows, 1 << 30)); }
inline unsigned row_threads(int64_t columns) {
  unsigned threads = 32;
  while (threads < 1024 && threads * 2 <= columns) threads *= 2;
  return threads;
}

__device__ inline int64_t first_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t index_step() { return int64_t{gridDim.x} * blockDim.x; }

// In three pieces of 24, 24 and 16 bits (the last signed), each of which the hardware adds up over a warp in one instruction.
__device__ inline int64_t warp_sum(int64_t v) {
  constexpr uint32_t kAll = 0xFFFFFFFFu, kPiece = 0xFFFFFF;
  const auto low = __reduce_add_sync(kAll, static_cast<uint32_t>(v) & kPiece), middle = __reduce_add_sync(kAll, static_cast<uint32_t>(v >> 24) & kPiece);
  const int64_t high = __reduce_add_sync(kAll, static_cast<int32_t>(v >> 48));
  return low + (int64_t{middle} << 24) + static_cast<int64_t>(static_cast<uint64_t>(high) << 48);
}
__device__ inline int32_t warp_max(int32_t v) { return __reduce_max_sync(0xFFFFFFFFu, v); }

__device__ inline uint64_t warp_max(uint64_t v) {
  for (int offset = 16; offset > 0; offset /= 2) v = max(v, __shfl_xor_sync(0xFFFFFFFFu, v, offset));
  return v;
}

// Over all threads of a block, whose size is a multiple of 32; the result on every thread. `scratch` has 32 elements and must not be used
// again before another synchronisation.
template <class T, class WarpOp>
__device__ T block_reduce(T v, T* scratch, T neutral, WarpOp warp_op) {
  v = warp_op(v);
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  if (warps == 1) return v;
  if (lane == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  return warp_op(lane < warps ? scratch[lane] : neutral);
}
__device__ inline int64_t block_sum(int64_t v, int64_t* scratch) {
  return block_reduce<int64_t>(v, scratch, 0, [](int64_t x) { return warp_sum(x); });
}
__device__ inline int32_t block_max(int32_t v, int32_t* scratch) {
  return block_reduce<int32_t>(v, scratch, INT32_MIN, [](int32_t x) { return warp_max(x); });
}

__device__ inline uint64_t block_max_u64(uint64_t v, uint64_t* scratch) {
  return block_reduce<uint64_t>(v, scratch, 0, [](uint64_t x) { return warp_max(x); });
}

}  // namespace zeroulp::ops
