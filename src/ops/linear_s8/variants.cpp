#include "ops/linear_s8/reference.h"

namespace zeroulp::ops::linear_s8 {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
      {"reference", Needs::kNothing, reference},
  };
  return kTable;
}

}  // namespace zeroulp::ops::linear_s8
