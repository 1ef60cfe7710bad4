#include "ops/rmsnorm/reference.h"

namespace zeroulp::ops::rmsnorm {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
      {"reference", Needs::kNothing, reference},
  };
  return kTable;
}

}  // namespace zeroulp::ops::rmsnorm
