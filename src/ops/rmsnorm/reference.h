#pragma once

#include "ops/rmsnorm/contract.h"

namespace zeroulp::ops::rmsnorm {
void reference(const Args& args);
}
