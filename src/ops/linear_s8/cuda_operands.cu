#include "ops/linear_s8/cuda_operands.cuh"

#include <algorithm>

namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int kBlock = 256;

// One thread: 16 codes of a row, to 16 bytes of each plane. kVector: rows of codes start at multiples of 16 bytes.
template <int P, bool kVector>
__global__ void split_codes(const int16_t* codes, int64_t codes_stride, int64_t rows, int64_t k, int8_t* planes, int64_t plane_rows,
                            int64_t k_stride) {
  let_next_start();
  wait_for_previous();
  const int64_t pieces = k_stride / 16, piece = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, at = piece % pieces * 16;
  alignas(16) int16_t q[16];
  const int16_t* from = codes + row * codes_stride + at;
  if (kVector && at + 16 <= k) {
    reinterpret_cast<uint4*>(q)[0] = reinterpret_cast<const uint4*>(from)[0];
    reinterpret_cast<uint4*>(q)[1] = reinterpret_cast<const uint4*>(from)[1];
  } else {
    for (int i = 0; i < 16; ++i) q[i] = at + i < k ? from[i] : int16_t{0};
  }
  alignas(16) int8_t out[P][16];
  for (int i = 0; i < 16; ++i) {
    out[0][i] = static_cast<int8_t>(P == 2 ? num::plane_hi(q[i]) : q[i]);
    if (P == 2) out[P - 1][i] = static_cast<int8_t>(num::plane_lo(q[i]));
  }
  for (int p = 0; p < P; ++p) *reinterpret_cast<uint4*>(planes + (p * plane_rows + row) * k_stride + at) = *reinterpret_cast<const uint4*>(out[p]);
}

__global__ void pad_rows(const int8_t* from, int64_t from_stride, int64_t rows, int64_t k, int8_t* to, int64_t to_rows, int64_t to_stride) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= to_rows * to_stride) return;
  const int64_t row = i / to_stride, at = i % to_stride;
  to[i] = row < rows && at < k ? from[row * from_stride + at] : int8_t{0};
}

template <int P>
__global__ void finish(Args a, const int32_t* sums, int64_t plane_stride, int64_t sums_n, int splits) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.rows * a.n) return;
  const int64_t row = i / a.n, channel = i % a.n;
  int32_t total[P] = {};
  for (int s = 0; s < splits; ++s)
    for (int p = 0; p < P; ++p) total[p] += sums[(s * P + p) * plane_stride + row * sums_n + channel];
  store(a, row, channel, P == 2 ? join_planes(total[0], total[P - 1]) : total[0]);
}

}  // namespace

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

Weights make_weights(const Args& a, const device::Launch& launch, Workspace& workspace, int64_t n) {
  if (weights_aligned(a) && n == a.n) return {a.weights, a.weights_stride, a.k};
  const int64_t k = padded_k(a);
  int8_t* const to = workspace.take<int8_t>(n * k);
  pad_rows<<<static_cast<unsigned>(ceil_div(n * k, kBlock)), kBlock, 0, launch.stream>>>(a.weights, a.weights_stride, a.n, a.k, to, n, k);
  return {to, k, k};
}

const int8_t* make_codes(const Args& a, const device::Launch& launch, Workspace& workspace, int64_t rows) {
  const int64_t k = padded_k(a);
  int8_t* const planes = workspace.take<int8_t>(planes_of(a) * rows * k);
  const bool vector = reinterpret_cast<uintptr_t>(a.codes) % 16 == 0 && a.codes_stride % 8 == 0;
  const auto split = a.width == 15 ? (vector ? split_codes<2, true> : split_codes<2, false>) : (vector ? split_codes<1, true> : split_codes<1, false>);
  launch_early(split, ceil_div(a.rows * (k / 16), kBlock), kBlock, 0, launch.stream, a.codes, a.codes_stride, a.rows, a.k, planes, rows, k);
  return planes;
}

void finish_sums(const Args& a, const device::Launch& launch, const int32_t* sums, int64_t plane_stride, int64_t sums_n, int splits) {
  const auto blocks = static_cast<unsigned>(ceil_div(a.rows * a.n, kBlock));
  const auto kernel = a.width == 15 ? finish<2> : finish<1>;
  kernel<<<blocks, kBlock, 0, launch.stream>>>(a, sums, plane_stride, sums_n, splits);
}

}  // namespace zeroulp::ops::linear_s8
