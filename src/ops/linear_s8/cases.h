// The inputs that every variant of this op must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/linear_s8/contract.h"

namespace zeroulp::ops::linear_s8 {
void cases(const conformance::Visit<Fn>& visit);
}
