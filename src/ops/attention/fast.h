// The fast variants of this folder, where the architecture has them.
#pragma once

#include "ops/attention/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::attention {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::attention
#endif
