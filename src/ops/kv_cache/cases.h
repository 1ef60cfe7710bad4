// The inputs that storing keys and values must get right.
#pragma once

#include "ops/conformance.h"
#include "ops/kv_cache/contract.h"

namespace zeroulp::ops::kv_cache {
void cases(const conformance::Visit<StoreFn>& visit);
}
