// Linears of a few rows with what stands before and after them in one kernel (linear_s8/cuda_mma.cuh). Every thread block makes the codes of
// the whole input anew: it is short and lies in the second-level cache, and a kernel of its own would cost more.
#include "ops/fused/fused.h"
#include "ops/linear_s8/cuda_mma.cuh"
#include "ops/quant_rows/contract.h"
#include "ops/residual/contract.h"
#include "ops/rmsnorm/contract.h"
#include "ops/silu_mul/contract.h"

namespace zeroulp::ops::fused {
namespace {

namespace few = linear_s8::few;
using few::Eight;
using linear_s8::Args;

__device__ inline int32_t absmax(const Eight& y, int32_t top) {
  for (const uint16_t v : y.v) top = max(top, v & 0x7FFF);
  return top;
}

// This thread's bf16 values of a row become codes; the scale is returned.
template <int P>
__device__ float quantize(const RowInput& in, int row, int32_t top, uint4* values, int eights) {
  const quant_rows::Quantiser q = quant_rows::quantiser(static_cast<uint16_t>(top), P == 2 ? 15 : 8, in.range);
  for (int i = threadIdx.x; i < eights; i += few::kThreads) {
    const Eight y = reinterpret_cast<const Eight*>(values)[i];
    int16_t codes[8];
#pragma unroll
    for (int b = 0; b < 8; ++b) codes[b] = quant_rows::code(y.v[b], q.multiplier);
    values[i] = few::planes_of<P>(codes);
  }
  if (q.fault && blockIdx.x == 0 && threadIdx.x == 0) in.faults[row] = 1;
  return q.scale;
}

// quant_rows.
struct Plain {
  RowInput in;
  static constexpr bool weights_at_hand = true;
  struct Nothing {};
  __device__ Nothing early() const { return {}; }
  template <int P>
  __device__ float load(int row, Nothing, uint4* to, int eights, few::Shared& s) const {
    const auto* const from = reinterpret_cast<const Eight*>(in.x + row * in.k);
    const int n = static_cast<int>(in.k / 8);
    auto* const values = reinterpret_cast<Eight*>(to);
    int32_t top = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < eights; i += few::kThreads) {
      const Eight y = i < n ? from[i] : Eight{};
      values[i] = y;
      top = absmax(y, top);
    }
    return quantize<P>(in, row, block_max(top, s.tops[row % 2]), to, eights);
  }
};

// rmsnorm, quant_rows.
struct Normed {
  RowInput in;
  const uint16_t* weight;
  float eps;
  static constexpr bool weights_at_hand = true;
  static constexpr int kEarly = 2;
  struct Early {
    Eight weight[kEarly];
  };
  __device__ Early early() const {
    Early e{};
#pragma unroll
    for (int u = 0; u < kEarly; ++u)
      if (const int i = threadIdx.x + u * few::kThreads; i < in.k / 8) e.weight[u] = reinterpret_cast<const Eight*>(weight)[i];
    return e;
  }
  template <int P>
  __device__ float load(int row, const Early& early, uint4* to, int eights, few::Shared& s) const {
    const auto* const from = reinterpret_cast<const Eight*>(in.x + row * in.k);
    const int n = static_cast<int>(in.k / 8);
    auto* const values = reinterpret_cast<Eight*>(to);
    int32_t top = 1;
#pragma unroll 2
    for (int i = threadIdx.x; i < eights; i += few::kThreads) {
      const Eight x = i < n ? from[i] : Eight{};
      values[i] = x;
      for (const uint16_t v : x.v) top = max(top, rmsnorm::exponent_of(v));
    }
    top = block_max(top, s.tops[0]);
    int64_t sum = 0;
    for (int i = threadIdx.x; i < n; i += few::kThreads)
      for (const uint16_t v : values[i].v) sum += rmsnorm::square_term(v, top);
    const float r = rmsnorm::reciprocal_rms(block_sum(sum, s.norm_sums), top, in.k, eps);
    int32_t largest = 0;
    const auto scale = [&](int i, const Eight& w) {
      Eight y = values[i];
#pragma unroll
      for (int b = 0; b < 8; ++b) y.v[b] = rmsnorm::scaled(y.v[b], r, w.v[b]);
      values[i] = y;
      largest = absmax(y, largest);
    };
#pragma unroll
    for (int u = 0; u < kEarly; ++u)
      if (const int i = threadIdx.x + u * few::kThreads; i < n) scale(i, early.weight[u]);
    for (int i = threadIdx.x + kEarly * few::kThreads; i < n; i += few::kThreads) scale(i, reinterpret_cast<const Eight*>(weight)[i]);
    return quantize<P>(in, row, block_max(largest, s.tops[1]), to, eights);
  }
};

// residual: the outputs are added to x, which has one reader and writer for every element.
struct AddTo {
  static constexpr int kBoxes = 1;
  few::Channels channels;
  uint16_t* x;
  struct Asked {
    few::Channels::Asked channel;
    uint16_t x;
  };
  __device__ int weight_row(int tile, int r) const { return tile * few::kChannels + r < channels.n ? tile * few::kChannels + r : -1; }
  __device__ uint16_t* at(int channel, int row) const { return x + int64_t{row} * channels.n + channel; }
  __device__ Asked ask(int tile, int r, int row, int rows) const {
    const int channel = tile * few::kChannels + r;
    return {channels.ask(channel), row < rows && channel < channels.n ? few::load_here(at(channel, row)) : uint16_t{0}};
  }
  __device__ void finish(int tile, int r, int row, bool there, int64_t sum, float row_scale, const Asked& asked) const {
    const int channel = tile * few::kChannels + r;
    if (!there || channel >= channels.n) return;
    const uint16_t before = row < 32 / few::kChannels ? asked.x : *at(channel, row);
    *at(channel, row) = residual::sum(before, channels.bf16(sum, row_scale, asked.channel));
  }
};

// silu_mul: four gate channels and the up channels of the same products are a tile.
struct Products {
  static constexpr int kBoxes = 2, kHalf = few::kChannels / 2;
  few::Channels channels;  // gate, then up
  uint16_t* y;
  using Asked = few::Channels::Asked;
  __device__ int inner() const { return channels.n / 2; }
  __device__ int weight_row(int tile, int r) const {
    const int product = tile * kHalf + r % kHalf;
    return product < inner() ? product + (r < kHalf ? 0 : inner()) : -1;
  }
  __device__ Asked ask(int tile, int r, int, int) const { return channels.ask(max(weight_row(tile, r), 0)); }
  __device__ void finish(int tile, int r, int row, bool there, int64_t sum, float row_scale, const Asked& asked) const {
    const uint16_t gate = channels.bf16(sum, row_scale, asked);
    const auto up = static_cast<uint16_t>(__shfl_xor_sync(0xFFFFFFFFu, gate, kHalf));  // lanes are columns, and r keeps a column's bit 2
    const int product = tile * kHalf + r;
    if (there && r < kHalf && product < inner()) y[int64_t{row} * inner() + product] = silu_mul::value(gate, up);
  }
};

linear_s8::Weights weights_of(const Args& a) {
  ZU_CHECK(linear_s8::weights_aligned(a));
  return {a.weights, a.weights_stride, a.k};
}
few::Channels channels_of(const Args& a) { return {a.channel_scales, a.bias, static_cast<int>(a.n)}; }

template <class Input, class Finish>
void launch(const Args& a, int64_t tiles, const Input& input, const Finish& finish, const device::Launch& to) {
  if (a.rows * a.n == 0) return;
  ZU_CHECK(input.in.k == a.k && reinterpret_cast<uintptr_t>(input.in.x) % 16 == 0);
  const linear_s8::Weights w = weights_of(a);
  a.width == 15 ? few::launch<2>(w, a.n, tiles, a.rows, input, finish, to) : few::launch<1>(w, a.n, tiles, a.rows, input, finish, to);
}
int64_t tiles_of(const Args& a) { return linear_s8::ceil_div(a.n, few::kChannels); }

}  // namespace

bool linear_fits(int64_t rows, int64_t k) { return k % 16 == 0 && few::fits(rows, k); }

void norm_linear(const NormInput& in, const Args& a, const device::Launch& l) {
  ZU_CHECK(reinterpret_cast<uintptr_t>(in.weight) % 16 == 0);
  launch(a, tiles_of(a), Normed{in.rows, in.weight, in.eps}, few::Store(a), l);
}
void norm_linear_silu(const NormInput& in, const Args& a, uint16_t* y, const device::Launch& l) {
  ZU_CHECK(reinterpret_cast<uintptr_t>(in.weight) % 16 == 0 && a.n % 2 == 0);
  launch(a, linear_s8::ceil_div(a.n / 2, Products::kHalf), Normed{in.rows, in.weight, in.eps}, Products{channels_of(a), y}, l);
}
void linear_residual(const RowInput& in, const Args& a, uint16_t* x, const device::Launch& l) { launch(a, tiles_of(a), Plain{in}, AddTo{channels_of(a), x}, l); }

}  // namespace zeroulp::ops::fused
