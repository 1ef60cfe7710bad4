#include "ops/attention/fast.h"
#include "ops/attention/reference.h"

namespace zeroulp::ops::attention {

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

std::span<const OnDevice> device_variants() { return {}; }

}  // namespace zeroulp::ops::attention
