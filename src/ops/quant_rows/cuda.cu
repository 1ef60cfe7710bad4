// One block per row.
#include "ops/early.cuh"
#include "ops/quant_rows/fast.h"
#include "ops/quant_rows/row.cuh"

namespace zeroulp::ops::quant_rows {
namespace {

__global__ void quant_rows_kernel(Args a) {
  __shared__ Scratch scratch;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const uint16_t* x = a.x + row * a.x_stride;
    quantize_row(a, row, x, a.absmax ? a.absmax[row] : block_absmax(x, a.k, scratch));
    __syncthreads();  // the scratch is used again
  }
}

// Rows of whole vectors of eight, one to a thread, from registers to registers.
struct __align__(16) Vector {
  uint16_t v[8];
};

__global__ void __launch_bounds__(1024) quant_rows_vectors(Args a) {
  __shared__ int32_t scratch[32];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  const bool mine = threadIdx.x < a.k / 8;
  Vector x = {};
  if (mine) x = reinterpret_cast<const Vector*>(a.x + row * a.x_stride)[threadIdx.x];
  int32_t top = 0;
  for (const uint16_t v : x.v) top = max(top, v & 0x7FFF);
  top = a.absmax ? a.absmax[row] : block_max(top, scratch);
  const Quantiser q = quantiser(static_cast<uint16_t>(top), a.width, a.range);
  for (uint16_t& v : x.v) v = static_cast<uint16_t>(code(v, q.multiplier));
  if (mine) reinterpret_cast<Vector*>(a.codes + row * a.codes_stride)[threadIdx.x] = x;
  if (threadIdx.x != 0) return;
  a.scales[row] = q.scale;
  if (q.fault) a.faults[row] = 1;
}

__global__ void row_absmax_kernel(const uint16_t* x, int64_t stride, int64_t rows, int64_t k, uint16_t* tops) {
  __shared__ Scratch scratch;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const uint16_t top = block_absmax(x + row * stride, k, scratch);
    if (threadIdx.x == 0) tops[row] = top;
    __syncthreads();
  }
}

}  // namespace

void cuda(const Args& a, const device::Launch& l) {
  if (a.rows == 0) return;
  const auto whole = [](const void* p, int64_t stride) { return reinterpret_cast<uintptr_t>(p) % 16 == 0 && stride % 8 == 0; };
  if (a.k > 0 && a.k % 8 == 0 && a.k <= 8192 && whole(a.x, a.x_stride) && whole(a.codes, a.codes_stride))
    launch_early(quant_rows_vectors, row_blocks(a.rows), (a.k / 8 + 31) / 32 * 32, 0, l.stream, a);
  else
    quant_rows_kernel<<<row_blocks(a.rows), row_threads(a.k), 0, l.stream>>>(a);
}

void cuda_absmax(const uint16_t* x, int64_t stride, int64_t rows, int64_t k, uint16_t* tops, const device::Launch& l) {
  if (rows > 0) row_absmax_kernel<<<row_blocks(rows), row_threads(k), 0, l.stream>>>(x, stride, rows, k, tops);
}

}  // namespace zeroulp::ops::quant_rows
