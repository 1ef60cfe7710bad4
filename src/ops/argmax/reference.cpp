#include "ops/argmax/reference.h"

namespace zeroulp::ops::argmax {

void reference(Args& a) {
  a.index = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    if (!num::is_finite(a.logits[i])) {
      a.index = -1;
      return;
    }
    if (a.logits[i] > a.logits[a.index]) a.index = i;
  }
}

}  // namespace zeroulp::ops::argmax
