// Linears of one row with what stands before and after them in one kernel: a step of decoding then has five kernels a layer. Every thread block
// makes the codes of the whole input anew: it is short and lies in the second-level cache, and a kernel of its own would cost more. Weights
// travel as in cuda_dp4a (linear_s8/cuda_stream.cuh), those of a warp's first steps while the input is made.
//
// Bound: a plane's sum with the weights is below 2^31 to K = 131072 (linear_s8/contract.h), whatever the order.
#include <algorithm>

#include "ops/fused/fused.h"
#include "ops/launch.cuh"
#include "ops/linear_s8/cuda_stream.cuh"
#include "ops/quant_rows/contract.h"
#include "ops/residual/contract.h"
#include "ops/rmsnorm/contract.h"
#include "ops/silu_mul/contract.h"

namespace zeroulp::ops::fused {
namespace {

using linear_s8::Args;
using linear_s8::Weights;
using namespace linear_s8::stream;

constexpr int kStep = 512 * kDeep;  // of K that a warp multiplies with at a time

struct Scratch {
  int64_t sums[32];
  int32_t tops[3][32];
};

// Eight values: bf16, or their codes: eight high planes (all of an 8-bit code), then eight low planes.
struct __align__(16) Eight {
  uint16_t v[8];
};
template <int P>
__device__ uint4 planes_of(const int16_t (&q)[8]) {
  uint32_t words[2][2] = {};
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    words[0][b / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(P == 2 ? num::plane_hi(q[b]) : q[b])) << (8 * (b % 4));
    if (P == 2) words[1][b / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(num::plane_lo(q[b]))) << (8 * (b % 4));
  }
  return {words[0][0], words[0][1], words[1][0], words[1][1]};
}

__device__ int32_t absmax(const Eight& y, int32_t top) {
  for (const uint16_t v : y.v) top = max(top, v & 0x7FFF);
  return top;
}

// This thread's values of the row become codes, in place; the row's scale.
template <int P>
__device__ float quantize(const RowInput& in, int32_t top, uint4* values) {
  const quant_rows::Quantiser q = quant_rows::quantiser(static_cast<uint16_t>(top), P == 2 ? 15 : 8, in.range);
  for (int i = threadIdx.x; i < in.k / 8; i += kBlockThreads) {
    const Eight y = reinterpret_cast<const Eight*>(values)[i];
    int16_t codes[8];
#pragma unroll
    for (int b = 0; b < 8; ++b) codes[b] = quant_rows::code(y.v[b], q.multiplier);
    values[i] = planes_of<P>(codes);
  }
  if (q.fault && blockIdx.x == 0 && threadIdx.x == 0) in.faults[0] = 1;
  return q.scale;
}

// Inputs: early() is what load() may read before the kernel ahead has ended. load<P>(early, to, scratch) leaves the row's codes in `to`, each thread
// those of eights threadIdx.x, threadIdx.x + kBlockThreads, ..., and returns the row's scale on every thread.

// quant_rows.
struct Plain {
  RowInput in;
  struct Early {};
  __device__ Early early() const { return {}; }
  template <int P>
  __device__ float load(Early, uint4* to, Scratch& s) const {
    const auto* const from = reinterpret_cast<const Eight*>(in.x);
    auto* const values = reinterpret_cast<Eight*>(to);
    int32_t top = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < in.k / 8; i += kBlockThreads) {
      values[i] = from[i];
      top = absmax(values[i], top);
    }
    return quantize<P>(in, block_max(top, s.tops[0]), to);
  }
};

// rmsnorm, quant_rows.
struct Normed {
  RowInput in;
  const uint16_t* weight;
  float eps;
  using Early = Eight;  // norm weights of the thread's first eight
  __device__ Early early() const { return threadIdx.x < in.k / 8 ? reinterpret_cast<const Eight*>(weight)[threadIdx.x] : Eight{}; }
  template <int P>
  __device__ float load(const Early& early, uint4* to, Scratch& s) const {
    const auto* const from = reinterpret_cast<const Eight*>(in.x);
    const int n = static_cast<int>(in.k / 8);
    auto* const values = reinterpret_cast<Eight*>(to);
    int32_t top = 1;
    for (int i = threadIdx.x; i < n; i += kBlockThreads) {
      values[i] = from[i];
      for (const uint16_t v : values[i].v) top = max(top, rmsnorm::exponent_of(v));
    }
    top = block_max(top, s.tops[0]);
    int64_t sum = 0;
    for (int i = threadIdx.x; i < n; i += kBlockThreads)
      for (const uint16_t v : values[i].v) sum += rmsnorm::square_term(v, top);
    const float r = rmsnorm::reciprocal_rms(block_sum(sum, s.sums), top, in.k, eps);
    int32_t largest = 0;
    for (int i = threadIdx.x; i < n; i += kBlockThreads) {
      const Eight w = i < kBlockThreads ? early : reinterpret_cast<const Eight*>(weight)[i];
      Eight y = values[i];
#pragma unroll
      for (int b = 0; b < 8; ++b) y.v[b] = rmsnorm::scaled(y.v[b], r, w.v[b]);
      values[i] = y;
      largest = absmax(y, largest);
    }
    return quantize<P>(in, block_max(largest, s.tops[1]), to);
  }
};

// Finishes: a warp makes output `index` of `count()` from kPasses rows of the weights, weight_row(index, pass). ask(index) is what finish needs from
// memory, asked for before the weights arrive; finish is called by one lane. kStepsAhead, 1 or 2: how many steps of weights a warp asks for before the
// kernel ahead has ended; the input is read behind them in the same queue, so more is not always sooner (bench/NOTES.md).

// Loads that stay where they are written.
__device__ float load_here(const float* from) {
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(from));
  return v;
}
__device__ uint16_t load_here(const uint16_t* from) {
  uint16_t v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(from));
  return v;
}

// A channel's scale and bias, and its output.
struct Channels {
  const float* scales;
  const float* bias;  // or null
  int n;
  struct Asked {
    float scale, bias;
  };
  __device__ Asked ask(int channel) const { return {load_here(scales + channel), bias == nullptr ? 0.0f : load_here(bias + channel)}; }
  __device__ uint16_t bf16(int64_t sum, float row_scale, const Asked& asked) const {
    return bias == nullptr ? linear_s8::bf16_output(sum, row_scale, asked.scale, nullptr) : linear_s8::bf16_output(sum, row_scale, asked.scale, &asked.bias);
  }
};

// The op's outputs.
struct Store {
  static constexpr int kPasses = 1, kStepsAhead = 1;
  Args a;
  Channels channels;
  using Asked = Channels::Asked;
  __host__ __device__ int count() const { return channels.n; }
  __device__ int weight_row(int index, int) const { return index; }
  __device__ Asked ask(int index) const { return channels.ask(index); }
  __device__ void finish(int index, const int64_t (&sums)[1], float row_scale, const Asked& asked) const {
    if (a.bias == nullptr)
      store(a, 0, index, sums[0], row_scale, asked.scale, nullptr);
    else
      store(a, 0, index, sums[0], row_scale, asked.scale, &asked.bias);
  }
};

// residual: the outputs are added to x, which has one reader and writer for every element.
struct AddTo {
  static constexpr int kPasses = 1, kStepsAhead = 2;
  Channels channels;
  uint16_t* x;
  struct Asked {
    Channels::Asked channel;
    uint16_t x;
  };
  __host__ __device__ int count() const { return channels.n; }
  __device__ int weight_row(int index, int) const { return index; }
  __device__ Asked ask(int index) const { return {channels.ask(index), load_here(x + index)}; }
  __device__ void finish(int index, const int64_t (&sums)[1], float row_scale, const Asked& asked) const {
    x[index] = residual::sum(asked.x, channels.bf16(sums[0], row_scale, asked.channel));
  }
};

// silu_mul: a gate channel, then the up channel of the same product.
struct Products {
  static constexpr int kPasses = 2, kStepsAhead = 2;
  Channels channels;  // gate, then up
  uint16_t* y;
  struct Asked {
    Channels::Asked gate, up;
  };
  __host__ __device__ int count() const { return channels.n / 2; }
  __device__ int weight_row(int index, int pass) const { return index + pass * count(); }
  __device__ Asked ask(int index) const { return {channels.ask(index), channels.ask(index + count())}; }
  __device__ void finish(int index, const int64_t (&sums)[2], float row_scale, const Asked& asked) const {
    y[index] = silu_mul::value(channels.bf16(sums[0], row_scale, asked.gate), channels.bf16(sums[1], row_scale, asked.up));
  }
};

template <int P, class Input, class Finish>
__global__ __launch_bounds__(kBlockThreads, 2) void linear_of_one_row(const __grid_constant__ Weights b, const __grid_constant__ Input input, const __grid_constant__ Finish finish) {
  extern __shared__ __align__(16) uint8_t memory[];
  __shared__ Scratch scratch;
  uint4* const stage = reinterpret_cast<uint4*>(memory) + threadIdx.x;  // [kDeep][kBlockThreads]
  uint4* const codes = reinterpret_cast<uint4*>(memory + kStageBytes);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, k = static_cast<int>(b.k), count = finish.count(), stride = gridDim.x * kWarps;

  // What is asked for next; steps follow each other through all passes of all outputs of this warp.
  int next = blockIdx.x * kWarps + warp, next_pass = 0, next_at = 0;
  const auto next_step = [&](auto ask) {
    if (next >= count) return;
    const int at = next_at + lane * 16;
    const int8_t* const from = b.data + finish.weight_row(next, next_pass) * b.stride + at;
#pragma unroll
    for (int u = 0; u < kDeep; ++u) ask(u, from + u * 512, at + u * 512 < k);
    next_at += kStep;
    if (next_at < k) return;
    next_at = 0;
    if (++next_pass < Finish::kPasses) return;
    next_pass = 0;
    next += stride;
  };
  const auto fetch = [&](int u, const int8_t* from, bool there) { fetch_weights(stage + u * kBlockThreads, there ? from : b.data, there); };
  uint4 w[kDeep];
  let_next_start();
  const auto early = input.early();
  next_step([&](int u, const int8_t* from, bool there) { w[u] = load_weights(from, there); });
  if (Finish::kStepsAhead == 2) next_step(fetch);
  wait_for_previous();
  const float row_scale = input.template load<P>(early, codes, scratch);
  if (Finish::kStepsAhead == 1) next_step(fetch);
  __syncthreads();

  // A lane has 16 of K in two eights; every other four lanes take the second one first, so that a quarter of a warp reads all banks.
  const int swap = lane / 4 % 2;
  bool at_hand = true;
  for (int index = blockIdx.x * kWarps + warp; index < count; index += stride) {
    const auto asked = finish.ask(index);
    int64_t sums[Finish::kPasses];
#pragma unroll
    for (int pass = 0; pass < Finish::kPasses; ++pass) {
      int32_t hi = 0, lo = 0;
      for (int step = 0; step < k; step += kStep) {
        if (!at_hand) {
          wait_for_fetched();
#pragma unroll
          for (int u = 0; u < kDeep; ++u) w[u] = stage[u * kBlockThreads];
          next_step(fetch);
        }
        at_hand = false;
        const uint4* const mine = codes + step / 8 + 2 * lane;
#pragma unroll
        for (int u = 0; u < kDeep; ++u) {
          const uint4 first = mine[64 * u + swap], second = mine[64 * u + (swap ^ 1)];
          const uint2 with_first = swap != 0 ? uint2{w[u].z, w[u].w} : uint2{w[u].x, w[u].y};
          const uint2 with_second = swap != 0 ? uint2{w[u].x, w[u].y} : uint2{w[u].z, w[u].w};
          hi = dot(with_first.x, first.x, dot(with_first.y, first.y, dot(with_second.x, second.x, dot(with_second.y, second.y, hi))));
          if (P == 2) lo = dot(with_first.x, first.z, dot(with_first.y, first.w, dot(with_second.x, second.z, dot(with_second.y, second.w, lo))));
        }
      }
      hi = __reduce_add_sync(0xFFFFFFFFu, hi);
      sums[pass] = P == 2 ? linear_s8::join_planes(hi, __reduce_add_sync(0xFFFFFFFFu, lo)) : hi;
    }
    if (lane == 0) finish.finish(index, sums, row_scale, asked);
  }
}

int64_t shared_bytes(int64_t k) { return kStageBytes + 2 * linear_s8::round_up(k, kStep); }

template <int P, class Input, class Finish>
void launch(const Weights& b, const Input& input, const Finish& finish, const device::Launch& to) {
  const auto kernel = linear_of_one_row<P, Input, Finish>;
  const int64_t bytes = shared_bytes(b.k);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  int resident = 1;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kBlockThreads, static_cast<size_t>(bytes));
  const int64_t blocks = std::min<int64_t>(linear_s8::ceil_div(finish.count(), kWarps), int64_t{resident} * to.multiprocessors);
  launch_early(kernel, static_cast<unsigned>(blocks), kBlockThreads, bytes, to.stream, b, input, finish);
}

template <class Input, class Finish>
void launch(const Args& a, const Input& input, const Finish& finish, const device::Launch& to) {
  ZU_CHECK(a.rows == 1 && linear_fits(a.k) && linear_s8::weights_aligned(a) && input.in.k == a.k && reinterpret_cast<uintptr_t>(input.in.x) % 16 == 0);
  const Weights b{a.weights, a.weights_stride, a.k};
  if (finish.count() > 0) a.width == 15 ? launch<2>(b, input, finish, to) : launch<1>(b, input, finish, to);
}
Channels channels_of(const Args& a) { return {a.channel_scales, a.bias, static_cast<int>(a.n)}; }

}  // namespace

bool linear_fits(int64_t k) { return k > 0 && k % 16 == 0 && shared_bytes(k) <= 224 * 1024; }

void norm_linear(const NormInput& in, const Args& a, const device::Launch& l) {
  ZU_CHECK(reinterpret_cast<uintptr_t>(in.weight) % 16 == 0);
  launch(a, Normed{in.rows, in.weight, in.eps}, Store{a, channels_of(a)}, l);
}
void norm_linear_silu(const NormInput& in, const Args& a, uint16_t* y, const device::Launch& l) {
  ZU_CHECK(reinterpret_cast<uintptr_t>(in.weight) % 16 == 0 && a.n % 2 == 0);
  launch(a, Normed{in.rows, in.weight, in.eps}, Products{channels_of(a), y}, l);
}
void linear_residual(const RowInput& in, const Args& a, uint16_t* x, const device::Launch& l) { launch(a, Plain{in}, AddTo{channels_of(a), x}, l); }

}  // namespace zeroulp::ops::fused
