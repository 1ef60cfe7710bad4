#pragma once

#include "ops/argmax/contract.h"

namespace zeroulp::ops::argmax {
void reference(Args& args);
}
