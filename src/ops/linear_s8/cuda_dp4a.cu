// linear_s8 on CUDA cores for few rows: every weight is read from memory once, 16 bytes to a thread, and multiplied with four-way dot
// products (dp4a). More than eight rows go eight at a time.
//
// A warp owns kChannels channels and runs along K, one lane to 16 weights; the codes wait in shared memory as int8 planes. What limits it
// is the memory, so enough loads must be under way: kDeep vectors per lane and step, and as many blocks as fit.
//
// Bound: a plane's sum with the weights is below 2^31 to K = 131072 (contract.h), whatever the order.
#include <algorithm>

#include "ops/linear_s8/cuda_operands.cuh"

namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int kWarps = 16, kThreads = 32 * kWarps;
constexpr int kDeep = 8;                   // weight vectors of a lane per step of the loop
constexpr int64_t kSlabBytes = 96 * 1024;  // codes in shared memory at a time, so that two blocks fit on a multiprocessor

// 16 weights, or zeros.
__device__ uint4 load_weights(const int8_t* at, bool there) {
  uint4 w{};
  if (there) asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(at));
  return w;
}

// Codes [at, at + length) of kRows rows into planes [row][plane][length], zero behind k and behind the last row.
template <int R, int P>
__device__ void load_codes(const Args& a, int64_t first_row, int64_t at, int length, int8_t* planes) {
  for (int i = threadIdx.x; i < R * (length / 4); i += kThreads) {
    const int r = i / (length / 4), j = i % (length / 4) * 4;
    uint32_t words[P] = {};
    for (int b = 0; b < 4; ++b) {
      const bool there = first_row + r < a.rows && at + j + b < a.k;
      const int32_t q = there ? a.codes[(first_row + r) * a.codes_stride + at + j + b] : 0;
      words[0] |= static_cast<uint32_t>(static_cast<uint8_t>(P == 2 ? num::plane_hi(q) : q)) << (8 * b);
      if (P == 2) words[P - 1] |= static_cast<uint32_t>(static_cast<uint8_t>(num::plane_lo(q))) << (8 * b);
    }
    for (int p = 0; p < P; ++p) *reinterpret_cast<uint32_t*>(planes + (r * P + p) * length + j) = words[p];
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
__global__ __launch_bounds__(kThreads) void linear_s8_dp4a(Args a, Weights b, int64_t first_row, int slab) {
  constexpr int U = kDeep / C;
  extern __shared__ __align__(16) int8_t planes[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t groups = (a.n + kWarps * C - 1) / (kWarps * C);
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const int64_t channel = (group * kWarps + warp) * C;
    const int8_t* w_at[C];
#pragma unroll
    for (int c = 0; c < C; ++c) w_at[c] = b.data + min(channel + c, a.n - 1) * b.stride;
    int32_t sums[C][R * P] = {};
    for (int64_t from = 0; from < b.k; from += slab) {
      if (from > 0 || group == blockIdx.x || slab < b.k) {
        __syncthreads();
        load_codes<R, P>(a, first_row, from, slab, planes);
        __syncthreads();
      }
      const int left = static_cast<int>(min(int64_t{slab}, b.k - from));
      for (int step = 0; step < left; step += U * 512) {
        const int at = step + lane * 16;
        uint4 w[U][C];
#pragma unroll
        for (int u = 0; u < U; ++u)
#pragma unroll
          for (int c = 0; c < C; ++c) w[u][c] = load_weights(w_at[c] + from + at + u * 512, at + u * 512 < left);
#pragma unroll
        for (int u = 0; u < U; ++u)
#pragma unroll
          for (int v = 0; v < R * P; ++v) {
            const uint4 x = *reinterpret_cast<const uint4*>(planes + v * slab + at + u * 512);
#pragma unroll
            for (int c = 0; c < C; ++c) sums[c][v] = dot(w[u][c], x, sums[c][v]);
          }
      }
    }
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int32_t hi = __reduce_add_sync(0xFFFFFFFFu, sums[c][r * P]);
        const int64_t sum = P == 2 ? join_planes(hi, __reduce_add_sync(0xFFFFFFFFu, sums[c][r * P + P - 1])) : hi;
        if (lane == c * R + r && channel + c < a.n && first_row + r < a.rows) store(a, first_row + r, channel + c, sum);
      }
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
