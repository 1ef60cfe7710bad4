#pragma once

#include "ops/nll/contract.h"

namespace zeroulp::ops::nll {
void reference(Args& args);
}
