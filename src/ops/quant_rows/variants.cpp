#include "ops/quant_rows/reference.h"

namespace zeroulp::ops::quant_rows {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
      {"reference", Needs::kNothing, reference},
  };
  return kTable;
}

}  // namespace zeroulp::ops::quant_rows
