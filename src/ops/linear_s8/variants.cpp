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

void move_arrays(Args& a, Stage& s) {
  s.read(a.codes, row_extent(a.rows, a.k, a.codes_stride, 2));
  s.read(a.row_scales, a.rows * 4);
  s.read(a.weights, row_extent(a.n, a.k, a.weights_stride, 1));
  s.read(a.channel_scales, a.n * 4);
  s.read(a.bias, a.n * 4);
  s.write(a.y, row_extent(a.rows, a.n, a.y_stride, a.output == Output::kBf16 ? 2 : a.output == Output::kF32 ? 4 : 8));
}

constexpr OnDevice kOnDevice[] = {{"cuda_ref", cuda_ref, staged<Args, cuda_ref, move_arrays>}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::linear_s8
