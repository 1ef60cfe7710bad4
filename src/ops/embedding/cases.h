// The inputs that every variant of this op must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/embedding/contract.h"

namespace zeroulp::ops::embedding {
void cases(const conformance::Visit<Fn>& visit);
}
