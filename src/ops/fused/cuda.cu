#include "ops/fused/fused.h"

#include <cooperative_groups.h>

#include "base/check.h"
#include "ops/early.cuh"
#include "ops/fused/heads.cuh"
#include "ops/launch.cuh"
#include "ops/quant_rows/row.cuh"
#include "ops/residual/contract.h"
#include "ops/rmsnorm/row.cuh"
#include "ops/silu_mul/contract.h"

namespace zeroulp::ops::fused {
namespace {

// One block per row.
__global__ void norm_quant_kernel(NormQuant a) {
  __shared__ rmsnorm::Scratch norm;
  __shared__ quant_rows::Scratch quant;
  let_next_start();
  wait_for_previous();
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
  const quant_rows::Args q{h, a.d, a.rows, a.d, a.width, a.range, nullptr, a.codes, a.codes_stride, a.scales, a.faults};
  quant_rows::quantize_row(q, row, h, static_cast<uint16_t>(top));
}

// Rows of whole vectors of eight bf16, V of them to a thread, that stay in registers from the first load to the last store.
struct __align__(16) Vector {
  uint16_t v[8];
};
static_assert(sizeof(Vector) == 16);

bool whole_vectors(const void* p, int64_t stride) { return p == nullptr || (reinterpret_cast<uintptr_t>(p) % 16 == 0 && stride % 8 == 0); }
constexpr int kMostVectors = 4;
// Vectors of a thread for rows of k elements; 0: the row is too long, or not of whole vectors.
int vectors_of(int64_t k) { return k % 8 != 0 || k > kMostVectors * 8192 ? 0 : k <= 8192 ? 1 : k <= 16384 ? 2 : 4; }
unsigned vector_threads(int64_t k, int vectors) { return static_cast<unsigned>((k / 8 + vectors - 1) / vectors + 31) / 32 * 32; }

__device__ inline int32_t absmax(const Vector& y, int32_t top) {
  for (const uint16_t v : y.v) top = max(top, v & 0x7FFF);
  return top;
}

// Codes, scale and fault of a row from the registers; every thread knows `top`.
template <int V, class Args>
__device__ void write_codes(const Args& a, int64_t row, const Vector (&y)[V], int64_t n, uint16_t top) {
  const quant_rows::Quantiser q = quant_rows::quantiser(top, a.width, a.range);
  auto* codes = reinterpret_cast<Vector*>(a.codes + row * a.codes_stride);
#pragma unroll
  for (int u = 0; u < V; ++u) {
    const int64_t at = threadIdx.x + u * blockDim.x;
    if (at >= n) continue;
    Vector c;
    for (int i = 0; i < 8; ++i) c.v[i] = static_cast<uint16_t>(quant_rows::code(y[u].v[i], q.multiplier));
    codes[at] = c;
  }
  if (threadIdx.x != 0) return;
  a.scales[row] = q.scale;
  if (q.fault) a.faults[row] = 1;
}

template <int V>
__global__ void __launch_bounds__(1024) norm_quant_vectors(NormQuant a) {
  __shared__ rmsnorm::Scratch scratch;
  __shared__ int32_t tops[32];
  const int64_t row = blockIdx.x, n = a.d / 8;
  auto *x = reinterpret_cast<Vector*>(a.x + row * a.d), *h = reinterpret_cast<Vector*>(a.h + row * a.d);
  const auto* add = reinterpret_cast<const Vector*>(a.add + row * a.d);
  const auto* weight = reinterpret_cast<const Vector*>(a.weight);
  Vector y[V] = {}, w[V];
  let_next_start();
#pragma unroll
  for (int u = 0; u < V; ++u)
    if (threadIdx.x + u * blockDim.x < n) w[u] = weight[threadIdx.x + u * blockDim.x];
  wait_for_previous();
  int32_t top = 1;
#pragma unroll
  for (int u = 0; u < V; ++u) {
    const int64_t at = threadIdx.x + u * blockDim.x;
    if (at >= n) continue;
    y[u] = x[at];
    if (a.add != nullptr) {
      const Vector other = add[at];
      for (int i = 0; i < 8; ++i) y[u].v[i] = residual::sum(y[u].v[i], other.v[i]);
      x[at] = y[u];
    }
    for (const uint16_t v : y[u].v) top = max(top, rmsnorm::exponent_of(v));
  }
  top = block_max(top, scratch.tops);
  int64_t sum = 0;  // zeros behind the row add nothing
#pragma unroll
  for (int u = 0; u < V; ++u)
    for (const uint16_t v : y[u].v) sum += rmsnorm::square_term(v, top);
  const float r = rmsnorm::reciprocal_rms(block_sum(sum, scratch.sums), top, a.d, a.eps);
  int32_t largest = 0;
#pragma unroll
  for (int u = 0; u < V; ++u) {
    const int64_t at = threadIdx.x + u * blockDim.x;
    if (at >= n) continue;
    for (int i = 0; i < 8; ++i) y[u].v[i] = rmsnorm::scaled(y[u].v[i], r, w[u].v[i]);
    h[at] = y[u];
    largest = absmax(y[u], largest);
  }
  write_codes(a, row, y, n, static_cast<uint16_t>(block_max(largest, tops)));
}

template <int V>
__global__ void __launch_bounds__(1024) silu_quant_vectors(SiluQuant a) {
  __shared__ int32_t scratch[32];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x, n = a.k / 8;
  const auto *gate = reinterpret_cast<const Vector*>(a.gate + row * a.stride), *up = reinterpret_cast<const Vector*>(a.up + row * a.stride);
  Vector y[V] = {}, g[V], p[V];
#pragma unroll
  for (int u = 0; u < V; ++u) {
    const int64_t at = threadIdx.x + u * blockDim.x;
    if (at < n) g[u] = gate[at], p[u] = up[at];
  }
  int32_t top = 0;
#pragma unroll
  for (int u = 0; u < V; ++u) {
    const int64_t at = threadIdx.x + u * blockDim.x;
    if (at >= n) continue;
    for (int i = 0; i < 8; ++i) y[u].v[i] = silu_mul::value(g[u].v[i], p[u].v[i]);
    top = absmax(y[u], top);
    reinterpret_cast<Vector*>(a.y + row * a.k)[at] = y[u];
  }
  top = block_max(top, scratch);
  if (a.tops == nullptr)
    write_codes(a, row, y, n, static_cast<uint16_t>(top));
  else if (threadIdx.x == 0)
    a.tops[row] = static_cast<uint16_t>(top);
}

__device__ void quantize_query(const Heads& a, const uint16_t* x, int64_t row, int64_t head) {
  const uint16_t top = kv_cache::warp_absmax(x, a.d);
  const int64_t at = row * a.heads + head;
  // Every query head is a row of its own to the quantiser; its flag is the pass's row's.
  constexpr num::RowRange range = num::kAttentionRange;
  const quant_rows::Quantiser q = quant_rows::quantiser(top, 15, range);
  for (int64_t i = threadIdx.x % 32; i < a.d; i += 32) a.q_codes[at * a.d + i] = quant_rows::code(x[i], q.multiplier);
  if (threadIdx.x % 32 != 0) return;
  a.q_scales[at] = q.scale;
  if (q.fault) a.q_faults[row] = 1;
}

constexpr int kHeadWarps = 4;

// One warp per row and head: query heads first, then KV heads with their keys and values.
__global__ void heads_kernel(const __grid_constant__ Heads a) {
  extern __shared__ uint16_t vectors[];
  const int warp = threadIdx.x / 32;
  const int64_t head = int64_t{blockIdx.x} * kHeadWarps + warp, row = blockIdx.y;
  let_next_start();
  if (head >= a.heads + a.kv_heads) return;
  HeadWarp mine(a, row, head, vectors + warp * HeadWarp::kVectors * a.d);
  wait_for_previous();
  mine.rotate();
  if (head < a.heads)
    quantize_query(a, mine.vector(), row, head);
  else
    mine.store();
}

// A row spread over eight thread blocks of a cluster, a vector to a thread; the largest magnitudes meet in each block's shared memory.
constexpr int kClusterBlocks = 8;
__global__ void __cluster_dims__(kClusterBlocks) __launch_bounds__(1024) silu_quant_cluster(SiluQuant a) {
  __shared__ int32_t scratch[32], tops[kClusterBlocks];
  const auto cluster = cooperative_groups::this_cluster();
  let_next_start();
  cluster.sync();  // all its blocks have begun: before that their shared memory must not be written
  wait_for_previous();
  const unsigned rank = cluster.block_rank();
  const int64_t row = blockIdx.x / kClusterBlocks, at = rank * blockDim.x + threadIdx.x;
  const bool mine = at < a.k / 8;
  Vector y = {};
  if (mine) {
    const Vector g = reinterpret_cast<const Vector*>(a.gate + row * a.stride)[at], u = reinterpret_cast<const Vector*>(a.up + row * a.stride)[at];
    for (int i = 0; i < 8; ++i) y.v[i] = silu_mul::value(g.v[i], u.v[i]);
    reinterpret_cast<Vector*>(a.y + row * a.k)[at] = y;
  }
  int32_t top = block_max(absmax(y, 0), scratch);
  if (threadIdx.x < kClusterBlocks) *cluster.map_shared_rank(tops + rank, threadIdx.x) = top;
  cluster.sync();
  for (const int32_t other : tops) top = max(top, other);
  if (a.tops != nullptr) {
    if (at == 0) a.tops[row] = static_cast<uint16_t>(top);
    return;
  }
  const quant_rows::Quantiser q = quant_rows::quantiser(static_cast<uint16_t>(top), a.width, a.range);
  for (uint16_t& v : y.v) v = static_cast<uint16_t>(quant_rows::code(v, q.multiplier));
  if (mine) reinterpret_cast<Vector*>(a.codes + row * a.codes_stride)[at] = y;
  if (at != 0) return;
  a.scales[row] = q.scale;
  if (q.fault) a.faults[row] = 1;
}

// One block per row.
__global__ void silu_quant_kernel(SiluQuant a) {
  __shared__ quant_rows::Scratch quant;
  let_next_start();
  wait_for_previous();
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
  const quant_rows::Args q{y, a.k, a.rows, a.k, a.width, a.range, nullptr, a.codes, a.codes_stride, a.scales, a.faults};
  quant_rows::quantize_row(q, row, y, static_cast<uint16_t>(top));
}

__global__ void gather_rows_kernel(const uint16_t* x, const int32_t* indices, int64_t d, uint16_t* y) {
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) y[blockIdx.x * d + i] = x[indices[blockIdx.x] * d + i];
}

template <class From, class To>
__global__ void convert_kernel(const From* from, int64_t count, To* to) {
  for (int64_t i = first_index(); i < count; i += index_step()) to[i] = static_cast<To>(from[i]);
}

__global__ void first_flag_kernel(const uint8_t* flags, int64_t count, int64_t* first) {
  __shared__ uint64_t lowest[32];
  uint64_t best = 0;  // count - index, so that the maximum is the lowest index
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
    if (flags[i] != 0) best = max(best, static_cast<uint64_t>(count - i));
  best = block_max_u64(best, lowest);
  if (threadIdx.x == 0) *first = best == 0 ? -1 : count - static_cast<int64_t>(best);
}

}  // namespace

void norm_quant(const NormQuant& a, const device::Launch& l) {
  if (a.rows == 0) return;
  const bool whole = whole_vectors(a.x, 0) && whole_vectors(a.add, 0) && whole_vectors(a.weight, 0) && whole_vectors(a.h, 0) && whole_vectors(a.codes, a.codes_stride);
  const int vectors = whole ? vectors_of(a.d) : 0;
  const unsigned threads = vectors == 0 ? row_threads(a.d) : vector_threads(a.d, vectors);
  auto* kernel = vectors == 1 ? norm_quant_vectors<1> : vectors == 2 ? norm_quant_vectors<2> : vectors == 4 ? norm_quant_vectors<4> : norm_quant_kernel;
  launch_early(kernel, row_blocks(a.rows), threads, 0, l.stream, a);
}

void heads(const Heads& a, const device::Launch& l) {
  const int64_t heads = a.heads + a.kv_heads;
  if (a.rows * heads == 0) return;
  ZU_CHECK(a.rows <= 65535);
  launch_early(heads_kernel, dim3(static_cast<unsigned>((heads + kHeadWarps - 1) / kHeadWarps), static_cast<unsigned>(a.rows)), 32 * kHeadWarps,
               kHeadWarps * HeadWarp::kVectors * 2 * a.d, l.stream, a);
}

void silu_quant(const SiluQuant& a, const device::Launch& l) {
  if (a.rows == 0) return;
  const bool whole = whole_vectors(a.gate, a.stride) && whole_vectors(a.up, a.stride) && whole_vectors(a.y, 0) && whole_vectors(a.codes, a.codes_stride);
  if (whole && a.k % 8 == 0 && a.k >= 2048 && a.k <= 8192 * kClusterBlocks && a.rows <= 32) {
    const auto per_block = static_cast<unsigned>((a.k / 8 + kClusterBlocks - 1) / kClusterBlocks + 31) / 32 * 32;
    return launch_early(silu_quant_cluster, a.rows * kClusterBlocks, per_block, 0, l.stream, a);
  }
  const int vectors = whole ? vectors_of(a.k) : 0;
  const unsigned threads = vectors == 0 ? row_threads(a.k) : vector_threads(a.k, vectors);
  auto* kernel = vectors == 1 ? silu_quant_vectors<1> : vectors == 2 ? silu_quant_vectors<2> : vectors == 4 ? silu_quant_vectors<4> : silu_quant_kernel;
  launch_early(kernel, row_blocks(a.rows), threads, 0, l.stream, a);
}

void gather_rows(const uint16_t* x, const int32_t* indices, int64_t rows, int64_t d, uint16_t* y, const device::Launch& l) {
  if (rows > 0) gather_rows_kernel<<<row_blocks(rows), kThreads, 0, l.stream>>>(x, indices, d, y);
}

void widen(const uint16_t* from, int64_t count, int32_t* to, const device::Launch& l) {
  if (count > 0) convert_kernel<<<blocks_for(count, l), kThreads, 0, l.stream>>>(from, count, to);
}
void narrow(const int32_t* from, int64_t count, uint16_t* to, const device::Launch& l) {
  if (count > 0) convert_kernel<<<blocks_for(count, l), kThreads, 0, l.stream>>>(from, count, to);
}

void first_flag(const uint8_t* flags, int64_t count, int64_t* first, const device::Launch& l) {
  first_flag_kernel<<<1, 1024, 0, l.stream>>>(flags, count, first);
}

}  // namespace zeroulp::ops::fused
