// The op itself on the kernel of cuda_mma.cuh: codes in, outputs out. More rows than it takes go a few at a time; inputs too long for it are
// cuda_dp4a's.
#include "ops/linear_s8/cuda_mma.cuh"
#include "ops/linear_s8/fast.h"

namespace zeroulp::ops::linear_s8 {
namespace {

struct Codes {
  const int16_t* codes;
  int64_t stride;
  const float* scales;
  int64_t k;
  bool weights_at_hand;

  struct Nothing {};
  __device__ Nothing early() const { return {}; }
  template <int P>
  __device__ float load(int row, Nothing, uint4* to, int eights, few::Shared&) const {
    const int16_t* const from = codes + row * stride;
    const bool vector = reinterpret_cast<uintptr_t>(codes) % 16 == 0 && stride % 8 == 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < eights; i += few::kThreads) {
      alignas(16) int16_t q[8];
      const int64_t left = k - 8 * i;
      if (vector && left >= 8) {
        *reinterpret_cast<uint4*>(q) = *reinterpret_cast<const uint4*>(from + 8 * i);
      } else {
#pragma unroll
        for (int b = 0; b < 8; ++b) q[b] = b < left ? from[8 * i + b] : int16_t{0};
      }
      to[i] = few::planes_of<P>(q);
    }
    return scales[row];
  }
};

template <int P>
void run(const Args& a, const device::Launch& to) {
  Workspace workspace(to);
  const Weights b = make_weights(a, to, workspace, a.n);
  int64_t most = few::kRows;
  while (most > 1 && !few::fits(most, b.k)) most /= 2;
  for (int64_t row = 0; row < a.rows; row += most)
    few::launch<P>(b, a.n, ceil_div(a.n, few::kChannels), std::min(most, a.rows - row),
                   Codes{a.codes + row * a.codes_stride, a.codes_stride, a.row_scales + row, a.k, b.data == a.weights}, few::Store(a, row), to);
}

}  // namespace

void cuda_mma(const Args& a, const device::Launch& launch) {
  if (a.rows * a.n == 0) return;
  if (!few::fits(1, a.k)) return cuda_dp4a(a, launch);
  a.width == 15 ? run<2>(a, launch) : run<1>(a, launch);
}
int64_t cuda_mma_workspace(const Args& a) { return weight_bytes(a, a.n); }

}  // namespace zeroulp::ops::linear_s8
