// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/attention/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::attention {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
void amx_int8(const Args& args);
int64_t avx2_scratch_bytes(const kv_cache::Layout& layout);
int64_t avx512_vnni_scratch_bytes(const kv_cache::Layout& layout);
int64_t amx_int8_scratch_bytes(const kv_cache::Layout& layout);
}  // namespace zeroulp::ops::attention
#endif

namespace zeroulp::ops::attention {
int64_t cuda_workspace(const Rows& args);
int64_t cuda_arrivals();  // elements of Rows::arrivals, whatever the rows and heads
void cuda(const Rows& args, const device::Launch& launch);
}  // namespace zeroulp::ops::attention
