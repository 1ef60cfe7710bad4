#pragma once

#include "ops/quant_rows/contract.h"

namespace zeroulp::ops::quant_rows {
void reference(const Args& args);
}
