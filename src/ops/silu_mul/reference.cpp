#include "ops/silu_mul/reference.h"

namespace zeroulp::ops::silu_mul {

void reference(const Args& a) {
  for (int64_t i = 0; i < a.count; ++i) a.y[i] = value(a.gate[i], a.up[i]);
}

}  // namespace zeroulp::ops::silu_mul
