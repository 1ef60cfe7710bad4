// What the encoder and the decoder share. A warp works on a block alone, so nothing waits at a barrier: rows of 256 consecutive BF16 values
// pass through its registers one after another, a lane holding 8 consecutive values (16 bytes) of a row. Order within a block is row, lane,
// value.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "codec/choose.h"
#include "codec/cuda/args.h"
#include "codec/format.h"

namespace zeroulp::codec::cuda {

inline constexpr unsigned kAll = 0xFFFFFFFFu;
inline constexpr int kLanes = 32;
inline constexpr int kCtas = 13;            // of one warp, on a multiprocessor: as many as have room for a block of 16 KiB each
inline constexpr int kGroup = 4;            // rows worked on together, so that there is something to do while a result is on its way
inline constexpr uint32_t kGroupValues = kGroup * kRowValues;

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

// `valid` of 8 values; the others are 0.
__device__ inline Row load_row(const std::byte* from, int valid) {
  Row row = {{0, 0, 0, 0}};
  if (valid == 8) {
    const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
    return {{v.x, v.y, v.z, v.w}};
  }
  const auto* values = reinterpret_cast<const uint16_t*>(from);
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (e < valid) row.word[e / 2] |= uint32_t{values[e]} << (16 * (e % 2));
  return row;
}

__device__ inline void store_row(const Row& row, std::byte* to, int valid) {
  if (valid == 8) {
    __stcs(reinterpret_cast<uint4*>(to), make_uint4(row.word[0], row.word[1], row.word[2], row.word[3]));
    return;
  }
  auto* values = reinterpret_cast<uint16_t*>(to);
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (e < valid) values[e] = static_cast<uint16_t>(row.word[e / 2] >> (16 * (e % 2)));
}

__device__ inline uint32_t both_halves(uint32_t x) { return (x & 0xFFFFu) * 0x00010001u; }

// PRMT with a selector known at run time: byte i of the result is byte (selector's nibble i) of b:a; nibble 8 gives 0 if bytes are below 128.
__device__ inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

// The table's bytes for 8 consecutive values from value i on, as two words. A period that is a multiple of 8 keeps them together.
__device__ inline uint2 table_at(const uint8_t* table, uint32_t period, uint32_t i) {
  if (period % 8 == 0) return *reinterpret_cast<const uint2*>(table + i % period);
  uint2 t = {0, 0};
#pragma unroll
  for (uint32_t e = 0; e < 8; ++e) (e < 4 ? t.x : t.y) |= uint32_t{table[(i + e) % period]} << (8 * (e % 4));
  return t;
}

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

// A kernel with a warp per block of the frame.
template <class Args>
cudaError_t launch_warps(void (*kernel)(Args), const Args& args, uint32_t blocks, uint32_t shared_bytes, cudaStream_t stream) {
  if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)); error != cudaSuccess) return error;
  if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared); error != cudaSuccess) return error;
  kernel<<<blocks, kLanes, shared_bytes, stream>>>(args);
  return cudaGetLastError();
}
inline const char* error_name(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorName(error); }

}  // namespace zeroulp::codec::cuda
