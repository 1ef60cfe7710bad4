// linear_s8 on CUDA cores for few rows: every weight is read from memory once, 16 bytes to a thread, and multiplied with four-way dot
// products (dp4a). More than eight rows go eight at a time.
//
// A warp owns C channels (cuda_stream.cuh); the codes wait in shared memory as int8 planes.
//
// Bound: a plane's sum with the weights is below 2^31 to K = 131072 (contract.h), whatever the order. Channels are counted in 32 bits.
#include <algorithm>

#include "ops/linear_s8/cuda_stream.cuh"

namespace zeroulp::ops::linear_s8 {
namespace {

using namespace stream;

// Codes in shared memory at a time: two blocks of few rows fit on a multiprocessor.
constexpr int64_t slab_bytes(int planes) { return planes <= 2 ? 48 * 1024 : 96 * 1024; }

// Codes [at, at + length) of R rows into planes [row][plane][length], zero behind k and behind the last row. length: a multiple of 8.
template <int R, int P>
__device__ void load_codes(const Args& a, int64_t first_row, int64_t at, int length, int8_t* planes) {
  const bool vector = reinterpret_cast<uintptr_t>(a.codes) % 16 == 0 && a.codes_stride % 8 == 0;
  const int pieces = length / 8;
#pragma unroll 2
  for (int i = threadIdx.x; i < R * pieces; i += kBlockThreads) {
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
  return stream::dot(w.w, x.w, stream::dot(w.z, x.z, stream::dot(w.y, x.y, stream::dot(w.x, x.x, sum))));
}

// R rows from first_row on; slab: codes held at a time, a multiple of a step.
template <int R, int P, int C>
__global__ __launch_bounds__(kBlockThreads, R * P <= 2 ? 2 : 1) void linear_s8_dp4a(Args a, Weights b, int64_t first_row, int slab) {
  constexpr int U = kDeep / C, kStep = 512 * U;
  extern __shared__ __align__(16) int8_t memory[];
  uint4* const stage = reinterpret_cast<uint4*>(memory) + threadIdx.x;  // [kDeep][kBlockThreads]
  int8_t* const planes = memory + kStageBytes;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, k = static_cast<int>(b.k), n = static_cast<int>(a.n);
  const int groups = (n + kWarps * C - 1) / (kWarps * C), blocks = gridDim.x;
  // Where the next step to be asked for begins; steps follow each other through all groups of this block.
  int next_group = blockIdx.x, next_at = 0;
  // Gives each of the step's pieces: which of kDeep, its weights, whether they lie before the end of their row; and goes on to the next step.
  const auto next_step = [&](auto ask) {
    if (next_group >= groups) return;
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int at = next_at + lane * 16;
      const int8_t* const from = b.data + min((next_group * kWarps + warp) * C + c, n - 1) * b.stride + at;
#pragma unroll
      for (int u = 0; u < U; ++u) ask(u * C + c, from + u * 512, at + u * 512 < k);
    }
    next_at += kStep;
    if (next_at >= k) next_at = 0, next_group += blocks;
  };
  const auto fetch = [&](int i, const int8_t* from, bool there) { fetch_weights(stage + i * kBlockThreads, there ? from : b.data, there); };
  uint4 w[kDeep];
  let_next_start();
  if (b.data != a.weights) wait_for_previous();  // a kernel made them
  next_step([&](int i, const int8_t* from, bool there) { w[i] = load_weights(from, there); });
  next_step(fetch);
  bool at_hand = true;
  wait_for_previous();
  for (int group = blockIdx.x; group < groups; group += blocks) {
    const int channel = (group * kWarps + warp) * C;
    int32_t sums[C][R * P] = {};
    for (int from = 0; from < k; from += slab) {
      if (from > 0 || group == static_cast<int>(blockIdx.x) || slab < k) {
        __syncthreads();
        load_codes<R, P>(a, first_row, from, slab, planes);
        __syncthreads();
      }
      const int left = min(slab, k - from);
      for (int step = 0; step < left; step += kStep) {
        if (!at_hand) {
          wait_for_fetched();
#pragma unroll
          for (int i = 0; i < kDeep; ++i) w[i] = stage[i * kBlockThreads];
          next_step(fetch);
        }
        at_hand = false;
        const int8_t* const codes = planes + step + lane * 16;
#pragma unroll
        for (int u = 0; u < U; ++u)
#pragma unroll
          for (int v = 0; v < R * P; ++v) {
            const uint4 x = *reinterpret_cast<const uint4*>(codes + v * slab + u * 512);
#pragma unroll
            for (int c = 0; c < C; ++c) sums[c][v] = dot(w[u * C + c], x, sums[c][v]);
          }
      }
    }
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int32_t hi = __reduce_add_sync(0xFFFFFFFFu, sums[c][r * P]);
        const int64_t sum = P == 2 ? join_planes(hi, __reduce_add_sync(0xFFFFFFFFu, sums[c][r * P + P - 1])) : hi;
        if (lane == c * R + r && channel + c < n && first_row + r < a.rows) store(a, first_row + r, channel + c, sum);
      }
  }
}

template <int R, int P>
void launch(const Args& a, const Weights& b, const device::Launch& to, int64_t first_row) {
  constexpr int C = R * P <= 2 ? 1 : R * P <= 4 ? 2 : 4;  // codes read from shared memory serve C channels
  constexpr int64_t kStep = 512 * (kDeep / C);
  const auto slab = static_cast<int>(std::min(round_up(b.k, kStep), slab_bytes(R * P) / (R * P) / kStep * kStep));
  const int64_t bytes = kStageBytes + R * P * slab;
  const auto kernel = linear_s8_dp4a<R, P, C>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kStageBytes + slab_bytes(R * P)));
  int resident = 1;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kBlockThreads, static_cast<size_t>(bytes));
  const int64_t groups = ceil_div(a.n, kWarps * C), blocks = std::min<int64_t>(groups, int64_t{resident} * to.multiprocessors);
  launch_early(kernel, blocks, kBlockThreads, bytes, to.stream, a, b, first_row, slab);
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
