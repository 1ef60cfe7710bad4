// The inputs that every variant of this op must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/rmsnorm/contract.h"

namespace zeroulp::ops::rmsnorm {
void cases(const conformance::Visit<Fn>& visit);
}
