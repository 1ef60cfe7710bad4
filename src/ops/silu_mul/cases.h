// The inputs that every variant of this op must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/silu_mul/contract.h"

namespace zeroulp::ops::silu_mul {
void cases(const conformance::Visit<Fn>& visit);
}
