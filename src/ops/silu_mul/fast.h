// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/silu_mul/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::silu_mul {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::silu_mul
#endif

namespace zeroulp::ops::silu_mul {
void cuda(const Args& args, const device::Launch& launch);
}  // namespace zeroulp::ops::silu_mul
