// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/linear_s8/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::linear_s8
#endif

namespace zeroulp::ops::linear_s8 {
void cuda_ref(const Args& args, const device::Launch& launch);
// The epilogue alone, on complete sums [rows, n]: after an exchange between tensor-parallel ranks.
void cuda_store(const Args& args, const int64_t* sums, const device::Launch& launch);
}  // namespace zeroulp::ops::linear_s8
