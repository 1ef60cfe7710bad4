#include <algorithm>

#include "ops/embedding/fast.h"
#include "ops/embedding/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::embedding {

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
  int64_t vocabulary = 0;
  for (int64_t row = 0; row < a.rows; ++row) vocabulary = std::max<int64_t>(vocabulary, a.tokens[row] + 1);
  s.read(a.codes, vocabulary * a.k);
  s.read(a.scales, vocabulary * 4);
  s.read(a.tokens, a.rows * 4);
  s.write(a.y, a.rows * a.k * 2);
}

constexpr OnDevice kOnDevice[] = {{"cuda", cuda, staged<Args, cuda, move_arrays>}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

}  // namespace zeroulp::ops::embedding
