#pragma once

#include "ops/silu_mul/contract.h"

namespace zeroulp::ops::silu_mul {
void reference(const Args& args);
}
