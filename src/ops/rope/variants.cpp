#include "ops/rope/reference.h"

namespace zeroulp::ops::rope {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
      {"reference", Needs::kNothing, reference},
  };
  return kTable;
}

}  // namespace zeroulp::ops::rope
