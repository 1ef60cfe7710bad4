#include <algorithm>

#include "ops/rope/fast.h"
#include "ops/rope/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::rope {

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
  int64_t positions = 0;
  for (int64_t row = 0; row < a.rows; ++row) positions = std::max<int64_t>(positions, a.positions[row] + 1);
  s.write(a.x, row_extent(a.rows, a.heads * a.d, a.x_stride, 2));
  s.read(a.cos, positions * (a.d / 2) * 2);
  s.read(a.sin, positions * (a.d / 2) * 2);
  s.read(a.positions, a.rows * 4);
}

constexpr OnDevice kOnDevice[] = {{"cuda", cuda, staged<Args, cuda, move_arrays>}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::rope
