// The fast variants of this folder, where the architecture has them.
#pragma once

#include "ops/argmax/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::argmax {
void avx2(Args& args);
void avx512_vnni(Args& args);
}  // namespace zeroulp::ops::argmax
#endif
