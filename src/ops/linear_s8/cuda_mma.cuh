// linear_s8 for few rows on tensor cores. What comes before the codes (norm, quantiser) and after the sums (SiLU,
// residual) is a parameter, so that a step of decoding has few kernels; nothing here rounds.
//
// A tile is eight output channels, a slice 256 bytes of K. A thread block takes every gridDim.x-th tile; its slices go round its eight warps. A
// warp has a ring of stages in shared memory of its own, one slice of eight channels each, and fills a stage again as soon as it has read it:
// no warp waits for another. Before the kernel ahead has made the input the rings are full (ops/early.cuh), and since a thread block takes less
// than half of a multiprocessor's memory, so are those of the linear behind it. Sums of a tile meet in shared memory by integer atomics; the
// warp that brings the last one finishes the tile.
//
// The product is mma.m16n8k32: weights are the columns, high planes of the codes the first eight rows and low planes the others. Which bytes of K stand
// at which place of the instruction is free as long as weights and codes agree: a thread has 16 in a row. Codes of eight inputs lie together, as that
// instruction's operand, and each thread turns its own bf16 values into codes in place.
//
// Slower than cuda_dp4a so far, although it overlaps with the kernels ahead as it should: bench/NOTES.md, "Decoding on a GPU", has the time stamps.
//
// Bound: a plane's sum with the weights is below 2^31 to K = 131072 (contract.h), whatever the order.
#pragma once

#include <algorithm>

#include "ops/launch.cuh"
#include "ops/linear_s8/cuda_hopper.cuh"
#include "ops/linear_s8/cuda_operands.cuh"

namespace zeroulp::ops::linear_s8::few {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kChannels = 8;             // of a tile
constexpr int kSlice = 256;              // bytes of K of a stage
constexpr int kChunks = kSlice / 128;    // a stage is [channel][chunk] rows of 128 bytes in the copy engine's 128-byte swizzle
constexpr int kStageBytes = kChannels * kSlice;
constexpr int kRows = 8;                 // of codes, at most
constexpr int kMostStages = 12;
constexpr int kSlots = 4;                // tiles that a thread block may have begun
// Two thread blocks and one of attention fit on a multiprocessor; one may have all of it where its codes are long.
constexpr int64_t kHalf = 868 * 128, kAll = 227 * 1024;

struct Shared {
  int32_t sums[kSlots][kRows][2][kChannels];
  int32_t arrived[kSlots], finished[kSlots];  // slices of the tile in the slot; tiles that the slot has seen to their end
  uint64_t full[kWarps][kMostStages];
  int64_t norm_sums[32];
  int32_t tops[3][32];
  float scales[kRows];
};

// What a launch decides. codes_k: bytes of a plane of codes, whole slices.
struct Plan {
  int tiles, slices, stages, rows, codes_k;
  int64_t bytes;
};
// stages is 0 when the codes leave no room.
inline Plan plan_for(int64_t rows, int64_t k, int64_t tiles) {
  Plan p{};
  p.rows = static_cast<int>(rows);
  p.tiles = static_cast<int>(tiles);
  p.slices = static_cast<int>(ceil_div(k, kSlice));
  p.codes_k = p.slices * kSlice;
  const int64_t fixed = 1024 + static_cast<int64_t>(sizeof(Shared)) + 2 * rows * p.codes_k, step = kWarps * kStageBytes;
  const int64_t in_half = (kHalf - fixed) / step, in_all = (kAll - fixed) / step;
  p.stages = static_cast<int>(std::clamp<int64_t>(kHalf - fixed >= 3 * step ? in_half : kAll < fixed ? 0 : in_all, 0, kMostStages));
  p.bytes = fixed + p.stages * step;
  return p;
}

// The weights' row of column `column` of the product, within the tile: neighbours differ in what the swizzle does to the upper half of 128 bytes, so
// that a quarter of a warp reads all banks.
__device__ inline int row_of_column(int column) { return (column & 4) | (column & 1) << 1 | (column >> 1 & 1); }

// d += A B: 16 rows and 32 of K by 8 columns.
__device__ inline void mma(int32_t (&d)[4], const uint4& a, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ inline void copy_16(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(hopper::shared_address(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
// The barrier's phase waits for this thread's copies.
__device__ inline void arrive_when_copied(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(hopper::shared_address(barrier)) : "memory");
}
// Loads that stay where they are written: a tile's scales are asked for before its weights are waited for.
__device__ inline float load_here(const float* from) {
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(from));
  return v;
}
__device__ inline uint16_t load_here(const uint16_t* from) {
  uint16_t v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(from));
  return v;
}

// Eight codes from shared memory on the lanes that have some, zeros elsewhere: no branch around the load.
__device__ inline uint4 load_codes(const uint8_t* from, bool there) {
  uint4 v{};
  asm volatile("{\n.reg .pred there;\nsetp.ne.u32 there, %5, 0;\n@there ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n}\n"
               : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
               : "r"(hopper::shared_address(from)), "r"(static_cast<uint32_t>(there)));
  return v;
}

// Eight values: bf16, or their codes: the high planes (all of an 8-bit code) of the first four, their low planes, and the same of the other four.
struct __align__(16) Eight {
  uint16_t v[8];
};
template <int P>
__device__ inline uint4 planes_of(const int16_t (&q)[8]) {
  uint32_t words[2][2] = {};
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    words[0][b / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(P == 2 ? num::plane_hi(q[b]) : q[b])) << (8 * (b % 4));
    if (P == 2) words[1][b / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(num::plane_lo(q[b]))) << (8 * (b % 4));
  }
  return {words[0][0], words[1][0], words[0][1], words[1][1]};
}

// Input: early() is what load() may read before the kernel ahead has ended; load<P>(row, early, to, eights, shared) is called by all threads once per row
// afterwards: it leaves the codes of 8 `eights` inputs, zero behind the last, in `to`, each thread those of eights threadIdx.x, threadIdx.x + kThreads,
// ..., and returns the row's scale on thread 0.
// Finish: weight_row(tile, r), the weights' row r of a tile, or -1; ask(tile, r, row, rows): what finish(...) needs from memory for
// weights' row r and one of the first four rows of codes.
// kBulk: the copy engine brings the weights; it takes rows of whole 128 bytes.
template <int P, bool kBulk, class Input, class Finish>
__global__ __launch_bounds__(kThreads, 4) void linear_s8_mma(const __grid_constant__ CUtensorMap map, const __grid_constant__ Weights b,
                                                            const __grid_constant__ Plan plan, const __grid_constant__ Input input,
                                                            const __grid_constant__ Finish finish) {
  extern __shared__ __align__(1024) uint8_t memory[];
  uint8_t* const rings = memory + (1024 - hopper::shared_address(memory) % 1024) % 1024;
  uint8_t* const codes = rings + plan.stages * kWarps * kStageBytes;
  auto& s = *reinterpret_cast<Shared*>(codes + 2 * plan.rows * plan.codes_k);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = lane / 4, quarter = lane % 4;
  uint8_t* const ring = rings + warp * plan.stages * kStageBytes;

  if (threadIdx.x < kWarps) {
    for (int i = 0; i < plan.stages; ++i) hopper::barrier_init(&s.full[threadIdx.x][i], kBulk ? 1 : 32);
    hopper::fence_barriers();
  }
  for (int i = threadIdx.x; i < kSlots * kRows * 2 * kChannels; i += kThreads) s.sums[0][0][0][i] = 0;
  if (threadIdx.x < kSlots) s.arrived[threadIdx.x] = s.finished[threadIdx.x] = 0;
  __syncthreads();

  // The slices of this thread block's tiles, one after another; this warp has every eighth.
  const int tiles = (plan.tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  struct Place {
    int tile, slice;
  };
  const auto tile_at = [&](int tile) { return static_cast<int>(blockIdx.x + tile * gridDim.x); };
  const auto settle = [&](Place p) {
    while (p.slice >= plan.slices) p.slice -= plan.slices, ++p.tile;
    return p;
  };
  Place next = settle({0, warp});
  const auto fill = [&](int stage) {
    if (next.tile >= tiles) return;
    uint8_t* const to = ring + stage * kStageBytes;
    uint64_t* const barrier = &s.full[warp][stage];
    const int tile = tile_at(next.tile);
    if constexpr (kBulk) {
      if (lane == 0) {
        hopper::barrier_expect(barrier, kStageBytes);
        constexpr int kBoxRows = kChannels / Finish::kBoxes;
#pragma unroll
        for (int box = 0; box < Finish::kBoxes; ++box) hopper::load_box(to + box * kBoxRows * kSlice, &map, barrier, 0, next.slice * kChunks, finish.weight_row(tile, box * kBoxRows));
      }
    } else {
      constexpr int kPieces = kSlice / 16;
#pragma unroll
      for (int i = 0; i < kStageBytes / 16 / 32; ++i) {
        const int r = (lane + 32 * i) / kPieces, piece = (lane + 32 * i) % kPieces, at = next.slice * kSlice + 16 * piece;
        const int line = r * kChunks + piece / 8, row = finish.weight_row(tile, r);
        const bool there = row >= 0 && at < b.k;
        copy_16(to + line * 128 + ((piece % 8) ^ (line & 7)) * 16, there ? b.data + row * b.stride + at : b.data, there);
      }
      arrive_when_copied(barrier);
    }
    next = settle({next.tile, next.slice + kWarps});
  };
  if (!input.weights_at_hand) wait_for_previous();  // a kernel makes them
  for (int i = 0; i < plan.stages; ++i) fill(i);
  let_next_start();
  const auto early = input.early();
  wait_for_previous();
  for (int r = 0; r < plan.rows; ++r) {
    const float scale = input.template load<P>(r, early, reinterpret_cast<uint4*>(codes + 2 * r * plan.codes_k), plan.codes_k / 8, s);
    if (threadIdx.x == 0) s.scales[r] = scale;
  }
  __syncthreads();

  const bool has_codes = column < plan.rows;  // a row of codes here
  const uint8_t* const my_codes = codes + 2 * column * plan.codes_k + quarter * 32;
  const int my_row = row_of_column(column), line = my_row * kChunks, end_row = row_of_column(lane % kChannels);
  int32_t d[2][4] = {};
  int stage = 0, brought = 0;
  uint32_t parity = 0;
  for (Place at = settle({0, warp}); at.tile < tiles;) {
    const int tile = tile_at(at.tile);
    const auto asked = finish.ask(tile, end_row, lane / kChannels, plan.rows);
    const uint8_t* const weights = ring + stage * kStageBytes;
    const uint8_t* const x = my_codes + 2 * at.slice * kSlice;
    hopper::barrier_wait(&s.full[warp][stage], parity);
#pragma unroll
    for (int j = 0; j < kSlice / 64; ++j) {
      const int my_line = line + j / 2;
      const uint4 w = *reinterpret_cast<const uint4*>(weights + my_line * 128 + ((j % 2 * 4 + quarter) ^ (my_line & 7)) * 16);
      mma(d[0], load_codes(x + 128 * j, has_codes), w.x, w.y);
      mma(d[1], load_codes(x + 128 * j + 16, has_codes), w.z, w.w);
    }
    __syncwarp();
    fill(stage);
    if (++stage == plan.stages) stage = 0, parity ^= 1;
    ++brought;
    const Place after = settle({at.tile, at.slice + kWarps});
    if (after.tile != at.tile) {
      const int slot = at.tile % kSlots, use = at.tile / kSlots;
      if (lane == 0)
        while (*const_cast<volatile int32_t*>(&s.finished[slot]) != use) {
        }
      __syncwarp();
      __threadfence_block();
      if (has_codes) {
#pragma unroll
        for (int i = 0; i < 2 * P; ++i) atomicAdd(&s.sums[slot][column][i / 2][2 * quarter + i % 2], d[0][i] + d[1][i]);
      }
      __syncwarp();
      int32_t arrived = 0;
      if (lane == 0) {
        __threadfence_block();
        arrived = atomicAdd(&s.arrived[slot], brought) + brought;
      }
      if (__shfl_sync(0xFFFFFFFFu, arrived, 0) == plan.slices) {
        __threadfence_block();
        for (int r = lane / kChannels; r - lane / kChannels < plan.rows; r += 32 / kChannels) {
          const bool there = r < plan.rows;
          const int from = there ? r : 0;
          const int32_t hi = s.sums[slot][from][0][lane % kChannels];
          finish.finish(tile, end_row, r, there, P == 2 ? join_planes(hi, s.sums[slot][from][1][lane % kChannels]) : hi, s.scales[from], asked);
        }
        __syncwarp();
        for (int i = lane; i < kRows * 2 * kChannels; i += 32) s.sums[slot][0][0][i] = 0;
        __syncwarp();
        if (lane == 0) {
          s.arrived[slot] = 0;
          __threadfence_block();
          *const_cast<volatile int32_t*>(&s.finished[slot]) = use + 1;
        }
      }
      brought = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) d[0][i] = d[1][i] = 0;
    }
    at = after;
  }
}

// Inputs and finishes -------------------------------------------------------------------------------------------------------------------

// A channel's scale and bias, and its output.
struct Channels {
  const float* scales;
  const float* bias;  // or null
  int n;
  struct Asked {
    float scale, bias;
  };
  __device__ Asked ask(int channel) const {
    const int at = min(channel, n - 1);
    return {load_here(scales + at), bias == nullptr ? 0.0f : load_here(bias + at)};
  }
  __device__ uint16_t bf16(int64_t sum, float row_scale, const Asked& asked) const {
    return bias == nullptr ? bf16_output(sum, row_scale, asked.scale, nullptr) : bf16_output(sum, row_scale, asked.scale, &asked.bias);
  }
};

// The op's outputs.
struct Store {
  static constexpr int kBoxes = 1;
  Args a;
  int64_t first_row;
  Channels channels;
  using Asked = Channels::Asked;
  explicit Store(const Args& args, int64_t row = 0) : a(args), first_row(row), channels{args.channel_scales, args.bias, static_cast<int>(args.n)} {}
  __device__ int weight_row(int tile, int r) const { return tile * kChannels + r < channels.n ? tile * kChannels + r : -1; }
  __device__ Asked ask(int tile, int r, int, int) const { return channels.ask(tile * kChannels + r); }
  __device__ void finish(int tile, int r, int row, bool there, int64_t sum, float row_scale, const Asked& asked) const {
    const int channel = tile * kChannels + r;
    if (!there || channel >= channels.n) return;
    if (a.bias == nullptr)
      store(a, first_row + row, channel, sum, row_scale, asked.scale, nullptr);
    else
      store(a, first_row + row, channel, sum, row_scale, asked.scale, &asked.bias);
  }
};

// Whether rows of so many codes fit beside a ring.
inline bool fits(int64_t rows, int64_t k) { return rows <= kRows && plan_for(rows, k, 1).stages >= 2; }

template <int P, class Input, class Finish>
void launch(const Weights& b, int64_t n, int64_t tiles, int64_t rows, const Input& input, const Finish& finish, const device::Launch& to) {
  const Plan plan = plan_for(rows, b.k, tiles);
  ZU_CHECK(plan.stages >= 1);
  const bool bulk = b.k % 128 == 0 && b.stride % 128 == 0;
  const auto k = static_cast<cuuint64_t>(b.k), stride = static_cast<cuuint64_t>(b.stride);
  const cuuint64_t extents[3] = {128, k / 128, static_cast<cuuint64_t>(n)}, strides[2] = {128, stride};
  const cuuint32_t box[3] = {128, kChunks, kChannels / Finish::kBoxes};
  const auto kernel = bulk ? linear_s8_mma<P, true, Input, Finish> : linear_s8_mma<P, false, Input, Finish>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.bytes));
  launch_early(kernel, static_cast<unsigned>(std::min<int64_t>(tiles, to.multiprocessors)), kThreads, plan.bytes, to.stream,
               bulk ? tensor_map(b.data, 3, extents, strides, box) : CUtensorMap{}, b, plan, input, finish);
}

}  // namespace zeroulp::ops::linear_s8::few
