#pragma once

#include "ops/rope/contract.h"

namespace zeroulp::ops::rope {
void reference(const Args& args);
}
