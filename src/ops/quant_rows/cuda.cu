// One block per row.
#include "ops/quant_rows/fast.h"
#include "ops/quant_rows/row.cuh"

namespace zeroulp::ops::quant_rows {
namespace {

__global__ void quant_rows_kernel(Args a) {
  __shared__ Scratch scratch;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const uint16_t* x = a.x + row * a.x_stride;
    quantize_row(a, row, x, a.absmax ? a.absmax[row] : block_absmax(x, a.k, scratch), scratch);
  }
}

__global__ void row_absmax_kernel(const uint16_t* x, int64_t stride, int64_t rows, int64_t k, uint16_t* tops) {
  __shared__ Scratch scratch;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const uint16_t top = block_absmax(x + row * stride, k, scratch);
    if (threadIdx.x == 0) tops[row] = top;
  }
}

}  // namespace

void cuda(const Args& a, const device::Launch& l) {
  if (a.rows > 0) quant_rows_kernel<<<row_blocks(a.rows), row_threads(a.k), 0, l.stream>>>(a);
}

void cuda_absmax(const uint16_t* x, int64_t stride, int64_t rows, int64_t k, uint16_t* tops, const device::Launch& l) {
  if (rows > 0) row_absmax_kernel<<<row_blocks(rows), row_threads(k), 0, l.stream>>>(x, stride, rows, k, tops);
}

}  // namespace zeroulp::ops::quant_rows
