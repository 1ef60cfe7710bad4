#include "ops/argmax/reference.h"

namespace zeroulp::ops::argmax {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
      {"reference", Needs::kNothing, reference},
  };
  return kTable;
}

}  // namespace zeroulp::ops::argmax
