// The fastest kernel of each op on this processor, chosen once: for computing what no option is about.
#pragma once

#include "base/check.h"
#include "ops/kernels.h"

namespace zeroulp::ops {

inline const Kernels& fastest_kernels() {
  static const Kernels kernels = [] {
    auto chosen = select_kernels("", cpu_features());
    ZU_CHECK(chosen.has_value());
    return *chosen;
  }();
  return kernels;
}

}  // namespace zeroulp::ops
