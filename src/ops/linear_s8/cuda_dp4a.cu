// linear_s8 on CUDA cores for few rows: every weight is read from memory once, 16 bytes to a thread, and multiplied with four-way dot
// products (dp4a). More than eight rows go eight at a time.
//
// A warp owns C channels and runs along K, one lane to 16 weights; the codes wait in shared memory as int8 planes. What limits it is the
// memory, so loads must always be under way: those of a step are issued before the products of the step before it, over the end of a row
// too, and the first ones before the codes are made.
//
// Bound: a plane's sum with the weights is below 2^31 to K = 131072 (contract.h), whatever the order.
#include <algorithm>

#include "ops/linear_s8/cuda_operands.cuh"

namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int kWarps = 16, kThreads = 32 * kWarps;
constexpr int kDeep = 4;                   // weight vectors of a lane and step
constexpr int64_t kSlabBytes = 96 * 1024;  // codes in shared memory at a time, so that two blocks fit on a multiprocessor

// 16 weights, or zeros.
__device__ uint4 load_weights(const int8_t* at, bool there) {
  uint4 w{};
  if (there) asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(at));
  return w;
}

// Codes [at, at + length) of R rows into planes [row][plane][length], zero behind k and behind the last row. length: a multiple of 8.
template <int R, int P>
__device__ void load_codes(const Args& a, int64_t first_row, int64_t at, int length, int8_t* planes) {
  const bool vector = reinterpret_cast<uintptr_t>(a.codes) % 16 == 0 && a.codes_stride % 8 == 0;
  const int pieces = length / 8;
  for (int i = threadIdx.x; i < R * pieces; i += kThreads) {
    const int r = i / pieces, j = i % pieces * 8;
    const int16_t* const from = a.codes + (first_row + r) * a.codes_stride + at + j;
    const int64_t left = first_row + r < a.rows ? a.k - at - j : 0;
    alignas(16) int16_t q[8];
    if (vector && left >= 8) {
      *reinterpret_cast<uint4*>(q) = *reinterpret_cast<const uint4*>(from);
    } else {
#pragma unroll
      for (int b = 0; b < 8; ++b) q[b] = b < left ? from[b] : int16_t{0};
    }
    uint32_t words[P][2] = {};
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      words[0][b / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(P == 2 ? num::plane_hi(q[b]) : q[b])) << (8 * (b % 4));
      if (P == 2) words[P - 1][b / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(num::plane_lo(q[b]))) << (8 * (b % 4));
    }
#pragma unroll
    for (int p = 0; p < P; ++p) *reinterpret_cast<uint2*>(planes + (r * P + p) * length + j) = uint2{words[p][0], words[p][1]};
  }
}

__device__ int32_t dot(const uint4& w, const uint4& x, int32_t sum) {
  sum = __dp4a(static_cast<int>(w.x), static_cast<int>(x.x), sum);
  sum = __dp4a(static_cast<int>(w.y), static_cast<int>(x.y), sum);
  sum = __dp4a(static_cast<int>(w.z), static_cast<int>(x.z), sum);
  return __dp4a(static_cast<int>(w.w), static_cast<int>(x.w), sum);
}

// R rows from first_row on; slab: codes held at a time, a multiple of 512 * U.
template <int R, int P, int C>
__global__ __launch_bounds__(kThreads, R * P <= 2 ? 2 : 1) void linear_s8_dp4a(Args a, Weights b, int64_t first_row, int slab) {
  constexpr int U = kDeep / C, kStep = 512 * U;
  extern __shared__ __align__(16) int8_t planes[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int k = static_cast<int>(b.k), steps = (k + kStep - 1) / kStep, slab_steps = slab / kStep;
  const int64_t groups = (a.n + kWarps * C - 1) / (kWarps * C);
  const auto channel_of = [&](int64_t group) { return (group * kWarps + warp) * C; };
  const auto load = [&](int64_t group, int step, uint4 (&w)[U][C]) {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int at = step * kStep + u * 512 + lane * 16;
#pragma unroll
      for (int c = 0; c < C; ++c)
        w[u][c] = load_weights(b.data + min(channel_of(group) + c, a.n - 1) * b.stride + at, group < groups && at < k);
    }
  };
  int64_t group = blockIdx.x;
  int step = 0;
  uint4 w[U][C], next[U][C];
  load(group, 0, w);
  load_codes<R, P>(a, first_row, 0, slab, planes);
  __syncthreads();
  int32_t sums[C][R * P] = {};
  while (group < groups) {
    const bool last = step + 1 == steps;
    const int64_t next_group = last ? group + gridDim.x : group;
    const int next_step = last ? 0 : step + 1;
    load(next_group, next_step, next);
    const int8_t* const codes = planes + step % slab_steps * kStep + lane * 16;
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int v = 0; v < R * P; ++v) {
        const uint4 x = *reinterpret_cast<const uint4*>(codes + v * slab + u * 512);
#pragma unroll
        for (int c = 0; c < C; ++c) sums[c][v] = dot(w[u][c], x, sums[c][v]);
      }
    if (last) {
      const int64_t channel = channel_of(group);
#pragma unroll
      for (int c = 0; c < C; ++c)
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const int32_t hi = __reduce_add_sync(0xFFFFFFFFu, sums[c][r * P]);
          const int64_t sum = P == 2 ? join_planes(hi, __reduce_add_sync(0xFFFFFFFFu, sums[c][r * P + P - 1])) : hi;
          if (lane == c * R + r && channel + c < a.n && first_row + r < a.rows) store(a, first_row + r, channel + c, sum);
#pragma unroll
          for (int p = 0; p < P; ++p) sums[c][r * P + p] = 0;
        }
    }
    if (steps > slab_steps && next_step % slab_steps == 0 && next_group < groups) {
      __syncthreads();
      load_codes<R, P>(a, first_row, int64_t{next_step} * kStep, slab, planes);
      __syncthreads();
    }
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int c = 0; c < C; ++c) w[u][c] = next[u][c];
    group = next_group;
    step = next_step;
  }
}

template <int R, int P>
void launch(const Args& a, const Weights& b, const device::Launch& to, int64_t first_row) {
  constexpr int C = R * P <= 2 ? 1 : R * P <= 4 ? 2 : 4;  // codes read from shared memory serve C channels
  constexpr int64_t kStep = 512 * (kDeep / C);
  const auto slab = static_cast<int>(std::min(round_up(b.k, kStep), kSlabBytes / (R * P) / kStep * kStep));
  const auto kernel = linear_s8_dp4a<R, P, C>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSlabBytes));
  int resident = 1;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kThreads, static_cast<size_t>(R * P * slab));
  const int64_t groups = ceil_div(a.n, kWarps * C), blocks = std::min<int64_t>(groups, int64_t{resident} * to.multiprocessors);
  kernel<<<static_cast<unsigned>(blocks), kThreads, R * P * slab, to.stream>>>(a, b, first_row, slab);
}

template <int P>
void run(const Args& a, const device::Launch& to) {
  if (a.rows * a.n == 0) return;
  Workspace workspace(to);
  const Weights b = make_weights(a, to, workspace, a.n);
  for (int64_t row = 0; row < a.rows; row += 8) {
    const int64_t rows = std::min<int64_t>(8, a.rows - row);
    const auto part = rows == 1 ? launch<1, P> : rows == 2 ? launch<2, P> : rows <= 4 ? launch<4, P> : launch<8, P>;
    part(a, b, to, row);
  }
}

}  // namespace

void cuda_dp4a(const Args& a, const device::Launch& launch) { a.width == 15 ? run<2>(a, launch) : run<1>(a, launch); }
int64_t cuda_dp4a_workspace(const Args& a) { return weight_bytes(a, a.n); }

}  // namespace zeroulp::ops::linear_s8
