#include "ops/rmsnorm/fast.h"
#include "ops/rmsnorm/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::rmsnorm {

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
  s.read(a.x, row_extent(a.rows, a.d, a.x_stride, 2));
  s.read(a.weight, a.d * 2);
  s.write(a.y, row_extent(a.rows, a.d, a.y_stride, 2));
}

constexpr OnDevice kOnDevice[] = {{"cuda", cuda, staged<Args, cuda, move_arrays>}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::rmsnorm
