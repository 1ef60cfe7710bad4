#pragma once

#include "ops/linear_s8/contract.h"

namespace zeroulp::ops::linear_s8 {
void reference(const Args& args);
}
