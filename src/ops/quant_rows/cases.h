// The inputs that every variant of this op must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/quant_rows/contract.h"

namespace zeroulp::ops::quant_rows {
void cases(const conformance::Visit<Fn>& visit);
}
