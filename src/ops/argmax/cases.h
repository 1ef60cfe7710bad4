// The inputs that every variant of this op must get right.
#pragma once

#include "ops/argmax/contract.h"
#include "ops/conformance.h"

namespace zeroulp::ops::argmax {
void cases(const conformance::Visit<Fn>& visit);
}
