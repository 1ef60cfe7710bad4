#include "ops/nll/fast.h"
#include "ops/nll/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::nll {

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

void move_arrays(Rows& a, Stage& s) {
  s.read(a.logits, row_extent(a.rows, a.count, a.stride, 4));
  s.read(a.targets, a.rows * 8);
  s.write(a.results, a.rows * 8);
}
void one_row(Args& a) { staged<Rows, cuda, move_arrays>({a.logits, a.count, 1, a.count, &a.target, &a.result}); }

constexpr OnDevice kOnDevice[] = {{"cuda", cuda, one_row}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::nll
