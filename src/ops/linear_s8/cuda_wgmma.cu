// linear_s8 on Hopper's tensor cores: wgmma m64nNk32 s8 * s8 -> s32.
//
// A block is one producer warp, which lets the copy engine fill a ring of stages, and two consumer warpgroups of 64 rows each. Blocks are
// persistent: block b takes the units b, b + blocks, ...; a unit is a tile of outputs, or a part of K of one.
//
// 8-bit codes: tiles of 128 x 256, or 128 x 128 where those would be fewer than the multiprocessors. 15-bit codes: tiles of 128 x 128 and an
// accumulator for each plane; both planes multiply the same weights of the stage.
//
// Outputs in bf16 leave through the epilogue in the kernel, 16 bytes to a thread. Every other case (fp32, sums, rows of y that do not start
// at multiples of 16 bytes, K in parts) leaves as int32 sums, which finish_sums turns into outputs.
//
// Bound: the sum of a plane is below 2^31 to K = 131072 (contract.h); .satfinite must not be used. Behind K, behind the last row and behind
// the last channel the copy engine writes zeros.
#include <algorithm>

#include "ops/linear_s8/cuda_hopper.cuh"
#include "ops/linear_s8/cuda_operands.cuh"

namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int kRows = 128, kDepth = 128;  // of a tile; kDepth is one swizzle row
constexpr int kConsumers = 2, kThreads = 128 * (1 + kConsumers);
constexpr int kGroup = 16;  // tiles of rows that are worked on together, so that their weights are read from the cache

// P planes, N channels.
template <int P, int N>
struct Stage {
  int8_t codes[P][kRows][kDepth];
  int8_t weights[N][kDepth];
};
template <int P, int N>
constexpr int kStages = static_cast<int>(200 * 1024 / sizeof(Stage<P, N>));

template <int P, int N>
struct Shared {
  Stage<P, N> stages[kStages<P, N>];
  uint64_t full[kStages<P, N>], empty[kStages<P, N>];
};

struct Work {
  int tiles_m, tiles_n, splits;
  int steps;         // of kDepth along K
  int32_t* sums;     // [splits][planes][rows][n]; null: outputs through the epilogue
};

struct Unit {
  int m, n, split, first, last;  // steps [first, last)
};

__device__ Unit unit_at(const Work& w, int index) {
  const int split = index % w.splits, tile = index / w.splits;
  const int group = tile / (kGroup * w.tiles_n), in_group = tile % (kGroup * w.tiles_n);
  const int rows = min(kGroup, w.tiles_m - group * kGroup);
  return {group * kGroup + in_group % rows, in_group / rows, split, static_cast<int>(int64_t{w.steps} * split / w.splits),
          static_cast<int>(int64_t{w.steps} * (split + 1) / w.splits)};
}

template <int P, int N>
__device__ void produce(Shared<P, N>& s, const CUtensorMap& codes, const CUtensorMap& weights, const Work& w) {
  const int units = w.tiles_m * w.tiles_n * w.splits;
  int stage = 0;
  uint32_t phase = 0;
  for (int index = blockIdx.x; index < units; index += gridDim.x) {
    const Unit u = unit_at(w, index);
    for (int step = u.first; step < u.last; ++step) {
      hopper::barrier_wait(&s.empty[stage], phase ^ 1);
      hopper::barrier_expect(&s.full[stage], sizeof(Stage<P, N>));
      hopper::load_box(s.stages[stage].codes, &codes, &s.full[stage], step * kDepth, u.m * kRows, 0);
      hopper::load_box(s.stages[stage].weights, &weights, &s.full[stage], step * kDepth, u.n * N);
      if (++stage == kStages<P, N>) stage = 0, phase ^= 1;
    }
  }
}

// Where a consumer's thread stands in its tile: its registers i hold rows row and row + 8 and channels channel + 8 * (i / 4) + i % 2.
struct Place {
  int64_t row, channel;
};
template <int N>
__device__ Place place_of(const Unit& u, int consumer) {
  const int thread = threadIdx.x % 128;
  return {int64_t{u.m} * kRows + consumer * 64 + thread / 32 * 16 + thread % 32 / 4, int64_t{u.n} * N + 2 * (thread % 4)};
}

template <int P, int R>
__device__ float sum_as_float(const int32_t (&sums)[P][R], int i) {
  return P == 2 ? num::i2f(join_planes(sums[0][i], sums[P - 1][i])) : num::i2f(sums[0][i]);
}

// v[j] of the four lanes of a quad, transposed: lane q gets what the lanes 0 to 3 had in v[q].
__device__ void transpose_quad(uint32_t (&v)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int j = 0; j < 4; j += 2) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, odd ? v[j] : v[j + 1], 1);
    (odd ? v[j] : v[j + 1]) = other;
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, high ? v[j] : v[j + 2], 2);
    (high ? v[j] : v[j + 2]) = other;
  }
}

// bf16 outputs of a tile. n and y_stride are multiples of 8, y starts at a multiple of 16 bytes.
template <int P, int N>
__device__ void put_bf16(const Args& a, const Unit& u, const int32_t (&sums)[P][N / 2], int consumer) {
  const Place at = place_of<N>(u, consumer);
  float sa[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) sa[h] = at.row + 8 * h < a.rows ? __ldg(a.row_scales + at.row + 8 * h) : 0.0f;
  const int quad = threadIdx.x % 4;
#pragma unroll
  for (int g = 0; g < N / 32; ++g) {  // 32 channels: each lane has two of each eight, and gets eight of one row to store
    uint32_t packed[2][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t channel = at.channel + 32 * g + 8 * j;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const bool there = channel + c < a.n;
        const float sb = there ? __ldg(a.channel_scales + channel + c) : 0.0f;
        const float bias = there && a.bias != nullptr ? __ldg(a.bias + channel + c) : 0.0f;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float f = sum_as_float(sums, 4 * (4 * g + j) + 2 * h + c);
          const uint32_t y = num::float_to_bf16(a.bias != nullptr ? epilogue(f, sa[h], sb, &bias) : epilogue(f, sa[h], sb, nullptr));
          packed[h][j] = c == 0 ? y : packed[h][j] | y << 16;
        }
      }
    }
    const int64_t first = int64_t{u.n} * N + 32 * g + 8 * quad;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      transpose_quad(packed[h]);
      if (at.row + 8 * h < a.rows && first < a.n)
        *reinterpret_cast<uint4*>(static_cast<uint16_t*>(a.y) + (at.row + 8 * h) * a.y_stride + first) =
          uint4{packed[h][0], packed[h][1], packed[h][2], packed[h][3]};
    }
  }
}

// The exact sums of a unit.
template <int P, int N>
__device__ void put_sums(const Args& a, const Work& w, const Unit& u, const int32_t (&sums)[P][N / 2], int consumer) {
  const Place at = place_of<N>(u, consumer);
#pragma unroll
  for (int p = 0; p < P; ++p)
#pragma unroll
    for (int i = 0; i < N / 2; i += 2) {
      const int64_t row = at.row + 8 * (i / 2 % 2), channel = at.channel + 8 * (i / 4);
      if (row >= a.rows || channel >= a.n) continue;
      int32_t* const to = w.sums + ((int64_t{u.split} * P + p) * a.rows + row) * a.n + channel;
      to[0] = sums[p][i];
      if (channel + 1 < a.n) to[1] = sums[p][i + 1];
    }
}

template <int P, int N>
__device__ void consume(Shared<P, N>& s, const Args& a, const Work& w, int consumer) {
  const int units = w.tiles_m * w.tiles_n * w.splits;
  int stage = 0;
  uint32_t phase = 0;
  for (int index = blockIdx.x; index < units; index += gridDim.x) {
    const Unit u = unit_at(w, index);
    int32_t sums[P][N / 2];
    int previous = -1;
    for (int step = u.first; step < u.last; ++step) {
      hopper::barrier_wait(&s.full[stage], phase);
#pragma unroll
      for (int p = 0; p < P; ++p) hopper::fence_registers(sums[p]);
      hopper::mma_begin();
      const uint64_t weights = hopper::matrix_descriptor(s.stages[stage].weights);
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const uint64_t codes = hopper::matrix_descriptor(s.stages[stage].codes[p][64 * consumer]);
#pragma unroll
        for (int k = 0; k < kDepth / 32; ++k)
          hopper::Mma<N>::add(sums[p], codes + k * hopper::kNext32Bytes, weights + k * hopper::kNext32Bytes, step > u.first || k > 0);
      }
      hopper::mma_commit();
      hopper::mma_wait<1>();  // all but the group just committed: the stage before is free
#pragma unroll
      for (int p = 0; p < P; ++p) hopper::fence_registers(sums[p]);
      if (previous >= 0 && threadIdx.x % 32 == 0) hopper::barrier_arrive(&s.empty[previous]);
      previous = stage;
      if (++stage == kStages<P, N>) stage = 0, phase ^= 1;
    }
    hopper::mma_wait<0>();
#pragma unroll
    for (int p = 0; p < P; ++p) hopper::fence_registers(sums[p]);
    if (threadIdx.x % 32 == 0) hopper::barrier_arrive(&s.empty[previous]);
    if (w.sums == nullptr)
      put_bf16<P, N>(a, u, sums, consumer);
    else
      put_sums<P, N>(a, w, u, sums, consumer);
  }
}

template <int P, int N>
__global__ __launch_bounds__(kThreads, 1) void linear_s8_wgmma(const __grid_constant__ CUtensorMap codes, const __grid_constant__ CUtensorMap weights,
                                                               const __grid_constant__ Args a, const __grid_constant__ Work w) {
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& s = *reinterpret_cast<Shared<P, N>*>(memory + (1024 - hopper::shared_address(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages<P, N>; ++i) {
      hopper::barrier_init(&s.full[i], 1);
      hopper::barrier_init(&s.empty[i], 4 * kConsumers);  // one arrival per warp
    }
    hopper::fence_barriers();
  }
  __syncthreads();
  let_next_start();
  wait_for_previous();
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    hopper::fewer_registers<40>();
    if (threadIdx.x == 0) produce<P, N>(s, codes, weights, w);
  } else {
    hopper::more_registers<232>();
    consume<P, N>(s, a, w, warpgroup - 1);
  }
}

// ---- what is chosen for a problem: pure functions of its size

constexpr int64_t kBlocks = 132;  // of an H200: what tiles and parts of K are chosen for

int tile_channels(const Args& a) { return a.width == 8 && ceil_div(a.rows, kRows) * ceil_div(a.n, 256) >= kBlocks ? 256 : 128; }
int64_t tiles_of(const Args& a) { return ceil_div(a.rows, kRows) * ceil_div(a.n, tile_channels(a)); }

// Enough parts of K for all blocks. A part of less than eight steps does not pay for the second pass over its sums.
int automatic_splits(const Args& a) {
  return static_cast<int>(std::max<int64_t>(1, std::min(kBlocks / tiles_of(a), ceil_div(a.k, kDepth) / 8)));
}
constexpr int kForcedSplits = 3;
int forced_splits(const Args& a) { return static_cast<int>(std::min<int64_t>(kForcedSplits, ceil_div(a.k, kDepth))); }

bool is_fused(const Args& a, int splits) {
  return splits == 1 && a.output == Output::kBf16 && a.n % 8 == 0 && a.y_stride % 8 == 0 && reinterpret_cast<uintptr_t>(a.y) % 16 == 0;
}

template <int P, int N>
void run(const Args& a, const device::Launch& launch, int splits) {
  Workspace workspace(launch);
  const Weights b = make_weights(a, launch, workspace, a.n);
  const int8_t* const planes = make_codes(a, launch, workspace, a.rows);
  const auto rows = static_cast<cuuint64_t>(a.rows), n = static_cast<cuuint64_t>(a.n), k = static_cast<cuuint64_t>(b.k);
  const cuuint64_t code_extents[3] = {k, rows, P}, code_strides[2] = {k, k * rows};
  const cuuint32_t code_box[3] = {kDepth, kRows, P};
  const cuuint64_t weight_extents[2] = {k, n}, weight_strides[1] = {static_cast<cuuint64_t>(b.stride)};
  const cuuint32_t weight_box[2] = {kDepth, N};
  const Work w{static_cast<int>(ceil_div(a.rows, kRows)), static_cast<int>(ceil_div(a.n, N)), splits, static_cast<int>(ceil_div(a.k, kDepth)),
               is_fused(a, splits) ? nullptr : workspace.take<int32_t>(int64_t{splits} * P * a.rows * a.n)};
  const auto kernel = linear_s8_wgmma<P, N>;
  constexpr int kShared = sizeof(Shared<P, N>) + 1024;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  const int blocks = std::min(w.tiles_m * w.tiles_n * w.splits, launch.multiprocessors);
  launch_early(kernel, blocks, kThreads, kShared, launch.stream, tensor_map(planes, 3, code_extents, code_strides, code_box),
               tensor_map(b.data, 2, weight_extents, weight_strides, weight_box), a, w);
  if (w.sums != nullptr) finish_sums(a, launch, w.sums, a.rows * a.n, a.n, splits);
}

void run(const Args& a, const device::Launch& launch, int splits) {
  if (a.rows * a.n == 0) return;
  a.width == 15 ? run<2, 128>(a, launch, splits) : tile_channels(a) == 256 ? run<1, 256>(a, launch, splits) : run<1, 128>(a, launch, splits);
}

int64_t operand_bytes(const Args& a) { return weight_bytes(a, a.n) + code_bytes(a, a.rows); }

}  // namespace

void wgmma(const Args& a, const device::Launch& launch) { run(a, launch, automatic_splits(a)); }
int64_t wgmma_workspace(const Args& a) {
  // With K in parts, splits * rows is at most this for any number of rows, so that fewer rows never need more.
  const int64_t split_rows = kBlocks / ceil_div(a.n, 128) * kRows;
  return operand_bytes(a) + sum_bytes(a, std::max(split_rows, is_fused(a, 1) ? 0 : a.rows), a.n, 1);
}
void wgmma_splitk(const Args& a, const device::Launch& launch) { run(a, launch, forced_splits(a)); }
int64_t wgmma_splitk_workspace(const Args& a) { return operand_bytes(a) + sum_bytes(a, a.rows, a.n, forced_splits(a)); }

}  // namespace zeroulp::ops::linear_s8
