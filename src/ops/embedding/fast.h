// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/embedding/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::embedding {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::embedding
#endif

namespace zeroulp::ops::embedding {
void cuda(const Args& args, const device::Launch& launch);
}  // namespace zeroulp::ops::embedding
