#include "ops/nll/reference.h"

namespace zeroulp::ops::nll {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
      {"reference", Needs::kNothing, reference},
  };
  return kTable;
}

}  // namespace zeroulp::ops::nll
