// What the kernels for few rows on CUDA cores share: how weights travel from memory to a lane.
//
// A warp owns channels and runs along K, one lane to 16 weights at a time. What limits it is the memory, so enough must be under way: a lane has
// kDeep vectors of weights in registers, asked for before the kernel ahead has made the input (ops/early.cuh: nothing writes weights meanwhile),
// and those of its next step in shared memory, where only itself reads them.
#pragma once

#include "ops/linear_s8/cuda_operands.cuh"

namespace zeroulp::ops::linear_s8::stream {

constexpr int kWarps = 16, kBlockThreads = 32 * kWarps;
constexpr int kDeep = 8;                                         // weight vectors of a lane per step of the loop
constexpr int64_t kStageBytes = int64_t{kDeep} * kBlockThreads * 16;  // weights on their way into shared memory

// 16 weights, or zeros.
__device__ inline uint4 load_weights(const int8_t* at, bool there) {
  uint4 w{};
  if (there) asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(at));
  return w;
}

// Asks for 16 bytes of weights, or writes zeros; a thread waits for its own. A thread that has read the place before may write it again: its
// own accesses to shared memory keep their order.
__device__ inline void fetch_weights(void* to, const int8_t* from, bool there) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ inline void wait_for_fetched() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ inline int32_t dot(uint32_t w, uint32_t x, int32_t sum) { return __dp4a(static_cast<int>(w), static_cast<int>(x), sum); }

}  // namespace zeroulp::ops::linear_s8::stream
