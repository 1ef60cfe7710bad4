// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/residual/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::residual {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::residual
#endif

namespace zeroulp::ops::residual {
void cuda(const Args& args, const device::Launch& launch);
}  // namespace zeroulp::ops::residual
