// The fast variants of this folder, where the architecture has them.
#pragma once

#include "ops/linear_s8/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::linear_s8
#endif
