#include "ops/quant_rows/fast.h"
#include "ops/quant_rows/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::quant_rows {

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
  s.read(a.x, row_extent(a.rows, a.k, a.x_stride, 2));
  s.read(a.absmax, a.rows * 2);
  s.write(a.codes, row_extent(a.rows, a.k, a.codes_stride, 2));
  s.write(a.scales, a.rows * 4);
  s.write(a.faults, a.rows);
}

constexpr OnDevice kOnDevice[] = {{"cuda", cuda, staged<Args, cuda, move_arrays>}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::quant_rows
