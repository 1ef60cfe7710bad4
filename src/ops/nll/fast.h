// The fast variants of this folder, where the architecture has them.
#pragma once

#include "ops/nll/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::nll {
void avx2(Args& args);
void avx512_vnni(Args& args);
}  // namespace zeroulp::ops::nll
#endif
