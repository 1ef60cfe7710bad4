// The inputs that every variant of this op must get right.
#pragma once

#include "ops/attention/contract.h"
#include "ops/conformance.h"

namespace zeroulp::ops::attention {
void cases(const conformance::Visit<Fn>& visit);
}
