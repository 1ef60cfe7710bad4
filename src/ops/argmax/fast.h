// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/argmax/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::argmax {
void avx2(Args& args);
void avx512_vnni(Args& args);
}  // namespace zeroulp::ops::argmax
#endif

namespace zeroulp::ops::argmax {
void cuda(const Rows& args, const device::Launch& launch);
}  // namespace zeroulp::ops::argmax
