// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/rope/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::rope {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::rope
#endif

namespace zeroulp::ops::rope {
void cuda(const Args& args, const device::Launch& launch);
}  // namespace zeroulp::ops::rope
