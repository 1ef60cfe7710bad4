// The inputs that every variant of this op must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/nll/contract.h"

namespace zeroulp::ops::nll {
void cases(const conformance::Visit<Fn>& visit);
}
