// The inputs that every variant of this op must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/rope/contract.h"

namespace zeroulp::ops::rope {
void cases(const conformance::Visit<Fn>& visit);
void table_cases(const conformance::Visit<TableFn>& visit);  // entries of the table
}
