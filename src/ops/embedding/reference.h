#pragma once

#include "ops/embedding/contract.h"

namespace zeroulp::ops::embedding {
void reference(const Args& args);
}
