#include "ops/linear_s8/fast.h"
#include "ops/linear_s8/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::linear_s8 {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
    {"reference", Needs::kNothing, reference},
#if defined(__x86_64__)
    {"avx2", Needs::kAvx2, avx2},
    {"avx512_vnni", Needs::kAvx512Vnni, avx512_vnni},
#endif
  };
  return kTable;
}

#if ZEROULP_CUDA
namespace {

// Bytes of `rows` rows of `columns` elements; nothing is behind the last row.
constexpr int64_t extent(int64_t rows, int64_t columns, int64_t stride, int64_t size) {
  return rows == 0 ? 0 : ((rows - 1) * stride + columns) * size;
}

void move_arrays(Args& a, Stage& s) {
  s.read(a.codes, extent(a.rows, a.k, a.codes_stride, 2));
  s.read(a.row_scales, a.rows * 4);
  s.read(a.weights, extent(a.n, a.k, a.weights_stride, 1));
  s.read(a.channel_scales, a.n * 4);
  s.read(a.bias, a.n * 4);
  s.write(a.y, extent(a.rows, a.n, a.y_stride, a.output == Output::kBf16 ? 2 : a.output == Output::kF32 ? 4 : 8));
}

constexpr OnDevice kOnDevice[] = {{"cuda_ref", cuda_ref, staged<Args, cuda_ref, move_arrays>}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::linear_s8
