#include "ops/nll/reference.h"

namespace zeroulp::ops::nll {

void reference(Args& a) {
  float max = a.logits[0];
  for (int64_t i = 0; i < a.count; ++i) {
    if (!num::is_finite(a.logits[i])) {
      a.result = -1;
      return;
    }
    if (a.logits[i] > max) max = a.logits[i];
  }
  uint64_t sum = 0;
  for (int64_t i = 0; i < a.count; ++i) sum += term(a.logits[i], max);
  a.result = finish(sum, max, a.logits[a.target]);
}

}  // namespace zeroulp::ops::nll
