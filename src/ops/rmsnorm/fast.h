// The fast variants of this folder, where the architecture has them.
#pragma once

#include "ops/rmsnorm/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::rmsnorm {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::rmsnorm
#endif
