#pragma once

#include "ops/attention/contract.h"

namespace zeroulp::ops::attention {
void reference(const Args& args);
}
