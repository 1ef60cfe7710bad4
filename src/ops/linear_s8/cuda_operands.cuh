// What the tensor-core variants share: operands in the form that the bulk copy engine takes, and the way from plane sums to outputs.
//
// Codes become int8 planes [planes][rows][padded k], zero behind k. Weights stay where they are when their rows are whole 16-byte vectors, as
// those of real models are; otherwise they are copied to rows padded with zeros. Sums that leave a kernel unfinished are int32 per plane,
// [split][plane][rows][n]: they are exact, so that splitting K moves no bit.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "base/check.h"
#include "device/device.h"
#include "num/round.h"
#include "ops/early.cuh"
#include "ops/linear_s8/contract.h"

namespace zeroulp::ops::linear_s8 {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
inline int planes_of(const Args& a) { return a.width == 15 ? 2 : 1; }

// Lets a library be loaded while a graph is being recorded: what such calls do has no place in the graph.
class OutsideCapture {
 public:
  OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Hands out aligned parts of the workspace.
class Workspace {
 public:
  explicit Workspace(const device::Launch& launch) : next_(launch.workspace), left_(launch.workspace_bytes) {}
  template <class T>
  T* take(int64_t count) {
    const int64_t bytes = round_up(count * static_cast<int64_t>(sizeof(T)), 256);
    ZU_CHECK(bytes <= left_);
    std::byte* const at = next_;
    next_ += bytes;
    left_ -= bytes;
    return reinterpret_cast<T*>(at);
  }
  int64_t left() const { return left_; }

 private:
  std::byte* next_;
  int64_t left_;
};

// Weights whose rows start at multiples of 16 bytes and have k of them, a multiple of 16.
struct Weights {
  const int8_t* data;
  int64_t stride, k;
};

inline int64_t padded_k(const Args& a) { return round_up(a.k, 16); }
inline bool weights_aligned(const Args& a) {
  return reinterpret_cast<uintptr_t>(a.weights) % 16 == 0 && a.weights_stride % 16 == 0 && a.k % 16 == 0;
}

// Workspace for weights of `n` rows and codes of `rows` rows per plane; both may be more than the linear has.
inline int64_t weight_bytes(const Args& a, int64_t n) { return weights_aligned(a) && n == a.n ? 0 : round_up(n * padded_k(a), 256); }
inline int64_t code_bytes(const Args& a, int64_t rows) { return round_up(planes_of(a) * rows * padded_k(a), 256); }
// Of int32 sums [splits][planes][rows][n].
inline int64_t sum_bytes(const Args& a, int64_t rows, int64_t n, int splits) { return round_up(splits * planes_of(a) * rows * n * 4, 256); }

// Enqueue what makes operands inside the workspace: the weights where they are not aligned or fewer than n; the codes as
// [planes][rows][padded_k]. Weights behind the last channel are zero, codes behind the last row are left as they were.
Weights make_weights(const Args& a, const device::Launch& launch, Workspace& workspace, int64_t n);
const int8_t* make_codes(const Args& a, const device::Launch& launch, Workspace& workspace, int64_t rows);

// A map of a tensor of bytes with `dims` extents (innermost first; at most three) and the byte strides of all but the innermost; boxes in 128-byte swizzle.
CUtensorMap tensor_map(const void* data, int dims, const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box);

// Enqueues the sum over splits and linear_s8::store for every output. sums: [splits][planes] of plane_stride, rows of sums_n.
void finish_sums(const Args& a, const device::Launch& launch, const int32_t* sums, int64_t plane_stride, int64_t sums_n, int splits);

// The exact sum of a 15-bit or an 8-bit linear from its planes' sums.
ZU_HD inline int64_t join_planes(int32_t hi, int32_t lo) { return 128 * int64_t{hi} + lo; }

}  // namespace zeroulp::ops::linear_s8
