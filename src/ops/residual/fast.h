// The fast variants of this folder, where the architecture has them.
#pragma once

#include "ops/residual/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::residual {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::residual
#endif
