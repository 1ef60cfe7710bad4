#pragma once

#include "ops/residual/contract.h"

namespace zeroulp::ops::residual {
void reference(const Args& args);
}
