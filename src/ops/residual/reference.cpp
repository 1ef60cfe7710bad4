#include "ops/residual/reference.h"

namespace zeroulp::ops::residual {

void reference(const Args& a) {
  for (int64_t i = 0; i < a.count; ++i) a.x[i] = sum(a.x[i], a.y[i]);
}

}  // namespace zeroulp::ops::residual
