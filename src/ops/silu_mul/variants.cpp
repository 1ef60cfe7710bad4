#include "ops/silu_mul/fast.h"
#include "ops/silu_mul/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::silu_mul {

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
  s.read(a.gate, 2 * a.count);
  s.read(a.up, 2 * a.count);
  s.write(a.y, 2 * a.count);
}

constexpr OnDevice kOnDevice[] = {{"cuda", cuda, staged<Args, cuda, move_arrays>}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::silu_mul
