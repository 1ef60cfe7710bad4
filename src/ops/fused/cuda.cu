#include "ops/fused/fused.h"

#include "ops/kv_cache/store.cuh"
#include "ops/launch.cuh"
#include "ops/quant_rows/row.cuh"
#include "ops/residual/contract.h"
#include "ops/rmsnorm/row.cuh"
#include "ops/rope/contract.h"
#include "ops/silu_mul/contract.h"

namespace zeroulp::ops::fused {
namespace {

// One block per row.
__global__ void norm_quant_kernel(NormQuant a) {
  __shared__ rmsnorm::Scratch norm;
  __shared__ quant_rows::Scratch quant;
  const int64_t row = blockIdx.x;
  uint16_t *x = a.x + row * a.d, *h = a.h + row * a.d;
  if (a.add != nullptr) {
    for (int64_t i = threadIdx.x; i < a.d; i += blockDim.x) x[i] = residual::sum(x[i], a.add[row * a.d + i]);
    __syncthreads();
  }
  const float r = rmsnorm::row_factor(x, a.d, a.eps, norm);
  int32_t top = 0;
  for (int64_t i = threadIdx.x; i < a.d; i += blockDim.x) {
    h[i] = rmsnorm::scaled(x[i], r, a.weight[i]);
    top = max(top, h[i] & 0x7FFF);
  }
  top = block_max(top, quant.tops);
  constexpr num::RowRange range = num::kLinearRange;
  const quant_rows::Args q{h, a.d, a.rows, a.d, a.width, range, nullptr, a.codes, a.codes_stride, a.scales, a.faults};
  quant_rows::quantize_row(q, row, h, static_cast<uint16_t>(top), quant);
}

// A warp's share of RMSNorm of one head in shared memory, in place.
__device__ void norm_head(uint16_t* x, int64_t d, const uint16_t* weight, float eps) {
  const int lane = threadIdx.x % 32;
  int32_t top = 1;
  for (int64_t i = lane; i < d; i += 32) top = max(top, rmsnorm::exponent_of(x[i]));
  top = warp_max(top);
  int64_t sum = 0;
  for (int64_t i = lane; i < d; i += 32) sum += rmsnorm::square_term(x[i], top);
  const float r = rmsnorm::reciprocal_rms(warp_sum(sum), top, d, eps);
  for (int64_t i = lane; i < d; i += 32) x[i] = rmsnorm::scaled(x[i], r, weight[i]);
  __syncwarp();
}

__device__ void rotate_head(uint16_t* x, const Heads& a, int64_t position) {
  const int64_t half = a.d / 2;
  for (int64_t i = threadIdx.x % 32; i < half; i += 32) {
    const rope::Pair y = rope::rotate(x[i], x[i + half], a.cos[position * half + i], a.sin[position * half + i]);
    x[i] = y.first;
    x[i + half] = y.second;
  }
  __syncwarp();
}

__device__ void quantize_query(const Heads& a, const uint16_t* x, int64_t row, int64_t head) {
  const uint16_t top = kv_cache::warp_absmax(x, a.d);
  const int64_t at = row * a.heads + head;
  // Every query head is a row of its own to the quantiser; its flag is the pass's row's.
  float scale = 0;
  uint8_t fault = 0;
  constexpr num::RowRange range = num::kAttentionRange;
  const quant_rows::Args q{x, a.d, 1, a.d, 15, range, nullptr, nullptr, 0, &scale, &fault};
  const float multiplier = quant_rows::begin_row(q, 0, top);
  for (int64_t i = threadIdx.x % 32; i < a.d; i += 32) a.q_codes[at * a.d + i] = quant_rows::code(x[i], multiplier);
  if (threadIdx.x % 32 != 0) return;
  a.q_scales[at] = scale;
  if (fault) a.q_faults[row] = 1;
}

constexpr int kHeadWarps = 4;

// One warp per row and head: query heads first, then KV heads with their keys and values.
__global__ void heads_kernel(Heads a) {
  extern __shared__ uint16_t vectors[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t item = int64_t{blockIdx.x} * kHeadWarps + warp, per_row = a.heads + a.kv_heads;
  if (item >= a.rows * per_row) return;
  const int64_t row = item / per_row, head = item % per_row, position = a.positions[row];
  uint16_t *x = vectors + warp * 2 * a.d, *v = x + a.d;
  const uint16_t* from = a.qkv + row * a.stride + head * a.d;  // keys follow the queries
  for (int64_t i = lane; i < a.d; i += 32) x[i] = from[i];
  __syncwarp();
  if (head < a.heads) {
    if (a.q_norm != nullptr) norm_head(x, a.d, a.q_norm + head * a.d, a.eps);
    rotate_head(x, a, position);
    quantize_query(a, x, row, head);
    return;
  }
  const int64_t kv_head = head - a.heads;
  if (a.k_norm != nullptr) norm_head(x, a.d, a.k_norm + kv_head * a.d, a.eps);
  rotate_head(x, a, position);
  for (int64_t i = lane; i < a.d; i += 32) v[i] = from[a.kv_heads * a.d + i];
  __syncwarp();
  const kv_cache::View<std::byte> view(a.pages.block(row, position / kv_cache::kBlock, kv_head), a.layout);
  if (!kv_cache::store_warp(view, a.layout, position % kv_cache::kBlock, x, v) && lane == 0) a.kv_faults[row] = 1;
}

// One block per row.
__global__ void silu_quant_kernel(SiluQuant a) {
  __shared__ quant_rows::Scratch quant;
  const int64_t row = blockIdx.x;
  const uint16_t *gate = a.gate + row * a.stride, *up = a.up + row * a.stride;
  uint16_t* y = a.y + row * a.k;
  int32_t top = 0;
  for (int64_t i = threadIdx.x; i < a.k; i += blockDim.x) {
    y[i] = silu_mul::value(gate[i], up[i]);
    top = max(top, y[i] & 0x7FFF);
  }
  top = block_max(top, quant.tops);
  if (a.tops != nullptr) {
    if (threadIdx.x == 0) a.tops[row] = static_cast<uint16_t>(top);
    return;
  }
  constexpr num::RowRange range = num::kLinearRange;
  const quant_rows::Args q{y, a.k, a.rows, a.k, a.width, range, nullptr, a.codes, a.codes_stride, a.scales, a.faults};
  quant_rows::quantize_row(q, row, y, static_cast<uint16_t>(top), quant);
}

__global__ void gather_rows_kernel(const uint16_t* x, const int32_t* indices, int64_t d, uint16_t* y) {
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) y[blockIdx.x * d + i] = x[indices[blockIdx.x] * d + i];
}

__global__ void first_flag_kernel(const uint8_t* flags, int64_t count, int64_t* first) {
  __shared__ uint64_t lowest[33];
  uint64_t best = 0;  // count - index, so that the maximum is the lowest index
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
    if (flags[i] != 0) best = max(best, static_cast<uint64_t>(count - i));
  best = block_max_u64(best, lowest);
  if (threadIdx.x == 0) *first = best == 0 ? -1 : count - static_cast<int64_t>(best);
}

}  // namespace

void norm_quant(const NormQuant& a, const device::Launch& l) {
  if (a.rows > 0) norm_quant_kernel<<<row_blocks(a.rows), row_threads(a.d), 0, l.stream>>>(a);
}

void heads(const Heads& a, const device::Launch& l) {
  const int64_t items = a.rows * (a.heads + a.kv_heads);
  if (items > 0)
    heads_kernel<<<static_cast<unsigned>((items + kHeadWarps - 1) / kHeadWarps), 32 * kHeadWarps, kHeadWarps * 4 * a.d, l.stream>>>(a);
}

void silu_quant(const SiluQuant& a, const device::Launch& l) {
  if (a.rows > 0) silu_quant_kernel<<<row_blocks(a.rows), row_threads(a.k), 0, l.stream>>>(a);
}

void gather_rows(const uint16_t* x, const int32_t* indices, int64_t rows, int64_t d, uint16_t* y, const device::Launch& l) {
  if (rows > 0) gather_rows_kernel<<<row_blocks(rows), kThreads, 0, l.stream>>>(x, indices, d, y);
}

void first_flag(const uint8_t* flags, int64_t count, int64_t* first, const device::Launch& l) {
  first_flag_kernel<<<1, 1024, 0, l.stream>>>(flags, count, first);
}

}  // namespace zeroulp::ops::fused
