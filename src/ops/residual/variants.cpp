#include "ops/residual/fast.h"
#include "ops/residual/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::residual {

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
  s.write(a.x, a.count * 2);
  s.read(a.y, a.count * 2);
}

constexpr OnDevice kOnDevice[] = {{"cuda", cuda, staged<Args, cuda, move_arrays>}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::residual
