// What the encoder and the decoder share. A CTA works on a block alone: rows of 256 consecutive values pass through a warp's registers one
// after another, a lane holding 8 consecutive values of a row. Order within a block is row, lane, value.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "codec/choose.h"
#include "codec/cuda/args.h"
#include "codec/format.h"

namespace zeroulp::codec::cuda {

inline constexpr unsigned kAll = 0xFFFFFFFFu;
inline constexpr int kLanes = 32;
inline constexpr int kGroup = 4;            // rows worked on together, so that there is something to do while a result is on its way
inline constexpr uint32_t kGroupValues = kGroup * kRowValues;

// Symbols or codes of eight values: the upper byte of each half of a word. What stands in the lower bytes means nothing.
struct Row {
  uint32_t word[4];
};

// Of `left` values, those among the next 8. The empty instruction keeps maximum and minimum apart: ptxas of CUDA 13.0 fuses them to
// VIMNMX.RELU and then takes that instruction's predicate for "equals 8", which it is not.
__device__ inline int clamp8(int left) {
  int n = left < 0 ? 0 : left;
  asm volatile("" : "+r"(n));
  return n > 8 ? 8 : n;
}

// Of each word's two halves, those among the first `valid` of eight.
__device__ inline uint32_t halves_of(int word, int valid) { return valid > 2 * word + 1 ? kAll : valid > 2 * word ? 0xFFFFu : 0u; }

// Blocks in front of the own one whose data a warp brings to the L2 cache: they are begun some two microseconds later.
inline constexpr uint32_t kAhead = 256;
// Both arguments are multiples of 16.
__device__ inline void prefetch(const std::byte* from, uint32_t bytes) {
  if (bytes != 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// Units of 16 bytes to shared memory by a warp; fetched() waits for them.
__device__ inline void fetch(std::byte* to, const std::byte* from, uint32_t units, int lane) {
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
#pragma unroll 8
  for (uint32_t i = static_cast<uint32_t>(lane); i < units; i += kLanes)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared + 16 * i), "l"(from + uint64_t{i} * 16) : "memory");
}
__device__ inline void fetched() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
}
// The same by the copy engine: begun by one thread; `done` is in shared memory, and all threads of the CTA wait for it after their next barrier.
__device__ inline void fetch_bulk(std::byte* to, const std::byte* from, uint32_t bytes, uint64_t* done) {
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to)), barrier = static_cast<uint32_t>(__cvta_generic_to_shared(done));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n  fence.proxy.async.shared::cta;\n  { .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(barrier), "r"(bytes) : "memory");
  if (bytes == 0) return;
  asm volatile("{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
               "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], policy; }" ::"r"(shared), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
__device__ inline void wait_bulk(uint64_t* done) {
  const auto barrier = static_cast<uint32_t>(__cvta_generic_to_shared(done));
  for (uint32_t ready = 0; ready == 0;)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(ready) : "r"(barrier) : "memory");
}
__device__ inline uint32_t both_halves(uint32_t x) { return (x & 0xFFFFu) * 0x00010001u; }

// PRMT with a selector known at run time: byte i of the result is byte (selector's nibble i) of b:a; nibble 8 gives 0 if bytes are below 128.
__device__ inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

// A table of period 8 for calls without one, where a kernel serves both.
static __device__ const uint2 kNoTable = {0, 0};
// The table's bytes for a lane's values, row after row. Without a table there is nothing of it.
template <bool kTable>
class Channels {
 public:
  // From value i of the block on.
  __device__ Channels(const uint8_t* table, uint32_t period, uint32_t i) : table_(table), period_(period), at_(kTable ? i % period : 0), step_(kTable ? kRowValues % period : 0) {}

  // For the next 8 values, as two words; the row after it comes next. A period that is a multiple of 8 keeps them together.
  __device__ uint2 next() {
    uint2 t = {0, 0};
    if (!kTable) return t;
    if (period_ % 8 == 0) {
      t = *reinterpret_cast<const uint2*>(table_ + at_);
    } else {
      uint32_t from = at_;
#pragma unroll
      for (int e = 0; e < 8; ++e, from = from + 1 == period_ ? 0 : from + 1) (e < 4 ? t.x : t.y) |= uint32_t{table_[from]} << (8 * (e % 4));
    }
    at_ = min(at_ + step_, at_ + step_ - period_);  // the larger one, if below 0, wraps
    return t;
  }

 private:
  const uint8_t* table_;
  uint32_t period_, at_, step_;
};

// Bits i * bits of the codes of a string that are all ones. `places` has those bits.
template <int kBits>
__device__ inline uint32_t opened_of(uint32_t string, uint32_t places) {
  uint32_t m = string & string >> 1;
  if (kBits > 2) m &= string >> 2;
  if (kBits > 3) m &= string >> 3;
  return m & places;
}
template <int kBits>
inline constexpr uint32_t kPlaces = kBits == 2 ? 0x5555u : kBits == 3 ? 0x249249u : 0x11111111u;  // of eight codes

// Inclusive sum over the warp. Counts packed into bytes may overflow here; the exclusive sum, less the own counts, is right again.
__device__ inline uint32_t warp_scan(uint32_t x) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2)
    asm volatile("{ .reg .u32 y; .reg .pred p; shfl.sync.up.b32 y|p, %0, %1, 0, -1; @p add.u32 %0, %0, y; }" : "+r"(x) : "r"(d));
  return x;
}

// How many marks come before this lane's, and how many there are. Most lanes have none or one.
struct Share {
  uint32_t before, total;
};
__device__ inline Share share_of(uint32_t own, int lane) {
  const uint32_t marked = __ballot_sync(kAll, own != 0);
  if (!__any_sync(kAll, own > 1)) return {static_cast<uint32_t>(__popc(marked & ((1u << lane) - 1))), static_cast<uint32_t>(__popc(marked))};
  const uint32_t through = warp_scan(own);
  return {through - own, __shfl_sync(kAll, through, 31)};
}

// For rows with `own[r]` marks, at most 8 a lane: where this lane's begin if `begin` come before the first row; moves `begin` behind them all.
template <int kRows>
__device__ inline void places_of(const uint32_t (&own)[kRows], uint32_t& begin, uint32_t (&places)[kRows]) {
  static_assert(kRows == 1 || kRows == 4);
  uint32_t packed = own[0];
#pragma unroll
  for (int r = 1; r < kRows; ++r) packed |= own[r] << (8 * r);
  const uint32_t before = warp_scan(packed) - packed;  // at most 248 in each byte
  const uint32_t low = __reduce_add_sync(kAll, packed & 0x00FF00FFu);
  const uint32_t high = kRows == 1 ? 0 : __reduce_add_sync(kAll, packed >> 8 & 0x00FF00FFu);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    places[r] = begin + (before >> (8 * r) & 255);
    begin += ((r % 2 == 0 ? low : high) >> (r < 2 ? 0 : 16)) & 0xFFFFu;
  }
}

// A kernel with a CTA of `warps` warps per block of the frame.
template <class Args>
cudaError_t launch_ctas(void (*kernel)(Args), const Args& args, int warps, uint32_t blocks, uint32_t shared_bytes, cudaStream_t stream) {
  if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)); error != cudaSuccess) return error;
  if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared); error != cudaSuccess) return error;
  kernel<<<blocks, kLanes * warps, shared_bytes, stream>>>(args);
  return cudaGetLastError();
}
inline const char* error_name(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorName(error); }

}  // namespace zeroulp::codec::cuda
