#include "ops/silu_mul/reference.h"

namespace zeroulp::ops::silu_mul {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
      {"reference", Needs::kNothing, reference},
  };
  return kTable;
}

}  // namespace zeroulp::ops::silu_mul
