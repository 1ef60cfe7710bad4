// linear_s8 on Hopper's tensor cores: wgmma m64nNk32 s8 * s8 -> s32.
//
// A block is one producer warp, which lets the copy engine fill a ring of stages, and two consumer warpgroups of 64 rows each. Blocks are
// persistent: block b takes the units b, b + blocks, ...; a unit is a tile of outputs, or a part of K of one.
//
// 8-bit codes: tiles of 128 x 256, one accumulator. 15-bit codes: tiles of 128 x 128 and an accumulator for each plane; both planes
// multiply the same weights of the stage. Either way a stage is 48 KiB and a thread has 128 accumulators.
//
// Bound: the sum of a plane is below 2^31 to K = 131072 (contract.h); .satfinite must not be used. Behind K, behind the last row and behind
// the last channel the copy engine writes zeros.
#include <algorithm>

#include "ops/linear_s8/cuda_hopper.cuh"
#include "ops/linear_s8/cuda_operands.cuh"

namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int kRows = 128, kDepth = 128;  // of a tile; kDepth is one swizzle row
constexpr int kStages = 4;
constexpr int kConsumers = 2, kThreads = 128 * (1 + kConsumers);
constexpr int kGroup = 16;  // tiles of rows that are worked on together, so that their weights are read from the cache

template <int P>
constexpr int kChannels = P == 1 ? 256 : 128;

template <int P>
struct Stage {
  int8_t codes[P][kRows][kDepth];
  int8_t weights[kChannels<P>][kDepth];
};

template <int P>
struct Shared {
  Stage<P> stages[kStages];
  uint64_t full[kStages], empty[kStages];
};

struct Work {
  int tiles_m, tiles_n, splits;
  int steps;         // of kDepth along K
  int32_t* partial;  // [splits][planes][rows][n]; null with one split
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

template <int P>
__device__ void produce(Shared<P>& s, const CUtensorMap& codes, const CUtensorMap& weights, const Work& w) {
  const int units = w.tiles_m * w.tiles_n * w.splits;
  int stage = 0;
  uint32_t phase = 0;
  for (int index = blockIdx.x; index < units; index += gridDim.x) {
    const Unit u = unit_at(w, index);
    for (int step = u.first; step < u.last; ++step) {
      hopper::barrier_wait(&s.empty[stage], phase ^ 1);
      hopper::barrier_expect(&s.full[stage], sizeof(Stage<P>));
      hopper::load_box(s.stages[stage].codes, &codes, &s.full[stage], step * kDepth, u.m * kRows, 0);
      hopper::load_box(s.stages[stage].weights, &weights, &s.full[stage], step * kDepth, u.n * kChannels<P>);
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
  }
}

// One tile's sums on their way out: through the epilogue, or as int32 when K is split.
template <int P, int kRegisters>
__device__ void put(const Args& a, const Work& w, const Unit& u, const int32_t (&sums)[P][kRegisters], int consumer) {
  const int thread = threadIdx.x % 128;
  const int64_t first_row = int64_t{u.m} * kRows + consumer * 64 + thread / 32 * 16 + thread % 32 / 4;
  const int64_t first_channel = int64_t{u.n} * kChannels<P> + 2 * (thread % 4);
#pragma unroll
  for (int i = 0; i < kRegisters; i += 2) {
    const int64_t row = first_row + 8 * (i / 2 % 2), channel = first_channel + 8 * (i / 4);
    if (row >= a.rows || channel >= a.n) continue;
    if (w.partial != nullptr) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        int32_t* const to = w.partial + ((int64_t{u.split} * P + p) * a.rows + row) * a.n + channel;
        to[0] = sums[p][i];
        if (channel + 1 < a.n) to[1] = sums[p][i + 1];
      }
    } else if (P == 2) {
      store_pair(a, row, channel, join_planes(sums[0][i], sums[P - 1][i]), join_planes(sums[0][i + 1], sums[P - 1][i + 1]));
    } else {
      store_pair(a, row, channel, sums[0][i], sums[0][i + 1]);
    }
  }
}

template <int P>
__device__ void consume(Shared<P>& s, const Args& a, const Work& w, int consumer) {
  using Mma = hopper::Mma<kChannels<P>>;
  const int units = w.tiles_m * w.tiles_n * w.splits;
  int stage = 0;
  uint32_t phase = 0;
  for (int index = blockIdx.x; index < units; index += gridDim.x) {
    const Unit u = unit_at(w, index);
    int32_t sums[P][Mma::kRegisters];
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
          Mma::add(sums[p], codes + k * hopper::kNext32Bytes, weights + k * hopper::kNext32Bytes, step > u.first || k > 0);
      }
      hopper::mma_commit();
      hopper::mma_wait<1>();  // all but the group just committed: the stage before is free
#pragma unroll
      for (int p = 0; p < P; ++p) hopper::fence_registers(sums[p]);
      if (previous >= 0 && threadIdx.x % 32 == 0) hopper::barrier_arrive(&s.empty[previous]);
      previous = stage;
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
    hopper::mma_wait<0>();
#pragma unroll
    for (int p = 0; p < P; ++p) hopper::fence_registers(sums[p]);
    if (threadIdx.x % 32 == 0) hopper::barrier_arrive(&s.empty[previous]);
    put<P>(a, w, u, sums, consumer);
  }
}

template <int P>
__global__ __launch_bounds__(kThreads, 1) void linear_s8_wgmma(const __grid_constant__ CUtensorMap codes, const __grid_constant__ CUtensorMap weights,
                                                               const __grid_constant__ Args a, const __grid_constant__ Work w) {
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& s = *reinterpret_cast<Shared<P>*>(memory + (1024 - hopper::shared_address(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      hopper::barrier_init(&s.full[i], 1);
      hopper::barrier_init(&s.empty[i], 4 * kConsumers);  // one arrival per warp
    }
    hopper::fence_barriers();
  }
  __syncthreads();
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    hopper::fewer_registers<40>();
    if (threadIdx.x == 0) produce<P>(s, codes, weights, w);
  } else {
    hopper::more_registers<232>();
    consume<P>(s, a, w, warpgroup - 1);
  }
}

// A map of a tensor of bytes with `dims` extents (innermost first) and the byte strides of all but the innermost; boxes in 128-byte swizzle.
CUtensorMap tensor_map(const void* data, int dims, const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box) {
  static auto* const encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult how{};
    ZU_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &how) == cudaSuccess &&
             how == cudaDriverEntryPointSuccess);
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  }();
  const cuuint32_t each[3] = {1, 1, 1};
  CUtensorMap map;
  ZU_CHECK(encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, static_cast<cuuint32_t>(dims), const_cast<void*>(data), extents, strides, box, each,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
  return map;
}

constexpr int64_t kBlocks = 132;  // of an H200: what splitting K aims at
int64_t tiles_n(const Args& a) { return ceil_div(a.n, a.width == 15 ? kChannels<2> : kChannels<1>); }

// Enough parts of K for all blocks. A part of less than four steps does not pay for the second pass over its sums.
int automatic_splits(const Args& a) {
  return static_cast<int>(std::max<int64_t>(1, std::min(kBlocks / (ceil_div(a.rows, kRows) * tiles_n(a)), ceil_div(a.k, kDepth) / 4)));
}

constexpr int kForcedSplits = 3;
int forced_splits(const Args& a) { return static_cast<int>(std::min<int64_t>(kForcedSplits, ceil_div(a.k, kDepth))); }

template <int P>
void run(const Args& a, const device::Launch& launch, int splits) {
  Workspace workspace(launch);
  const Weights b = make_weights(a, launch, workspace, a.n);
  const int8_t* const planes = make_codes(a, launch, workspace, a.rows);
  const auto rows = static_cast<cuuint64_t>(a.rows), n = static_cast<cuuint64_t>(a.n), k = static_cast<cuuint64_t>(b.k);
  const cuuint64_t code_extents[3] = {k, rows, P}, code_strides[2] = {k, k * rows};
  const cuuint32_t code_box[3] = {kDepth, kRows, P};
  const cuuint64_t weight_extents[2] = {k, n}, weight_strides[1] = {static_cast<cuuint64_t>(b.stride)};
  const cuuint32_t weight_box[2] = {kDepth, kChannels<P>};
  Work w{static_cast<int>(ceil_div(a.rows, kRows)), static_cast<int>(ceil_div(a.n, kChannels<P>)), splits, static_cast<int>(ceil_div(a.k, kDepth)),
         splits > 1 ? workspace.take<int32_t>(int64_t{splits} * P * a.rows * a.n) : nullptr};
  const auto kernel = linear_s8_wgmma<P>;
  constexpr int kShared = sizeof(Shared<P>) + 1024;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  const int blocks = std::min(w.tiles_m * w.tiles_n * w.splits, launch.multiprocessors);
  kernel<<<blocks, kThreads, kShared, launch.stream>>>(tensor_map(planes, 3, code_extents, code_strides, code_box),
                                                       tensor_map(b.data, 2, weight_extents, weight_strides, weight_box), a, w);
  if (splits > 1) finish_sums(a, launch, w.partial, a.rows * a.n, a.n, splits);
}

void run(const Args& a, const device::Launch& launch, int splits) { a.width == 15 ? run<2>(a, launch, splits) : run<1>(a, launch, splits); }

int64_t operand_bytes(const Args& a) { return weight_bytes(a, a.n) + code_bytes(a, a.rows); }

}  // namespace

void wgmma(const Args& a, const device::Launch& launch) {
  if (a.rows * a.n > 0) run(a, launch, automatic_splits(a));
}
// splits * rows is at most kBlocks / tiles_n * kRows for any number of rows, so that fewer rows never need more.
int64_t wgmma_workspace(const Args& a) { return operand_bytes(a) + sum_bytes(a, kBlocks / tiles_n(a) * kRows, a.n, 1); }
void wgmma_splitk(const Args& a, const device::Launch& launch) {
  if (a.rows * a.n > 0) run(a, launch, forced_splits(a));
}
int64_t wgmma_splitk_workspace(const Args& a) { return operand_bytes(a) + sum_bytes(a, a.rows, a.n, forced_splits(a)); }

}  // namespace zeroulp::ops::linear_s8
