// The inputs that every variant of this op must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/residual/contract.h"

namespace zeroulp::ops::residual {
void cases(const conformance::Visit<Fn>& visit);
}
