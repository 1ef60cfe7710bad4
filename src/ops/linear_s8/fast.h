// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/linear_s8/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
void amx_int8(const Args& args);
int64_t avx512_vnni_scratch_bytes(int64_t rows, int64_t k);
int64_t amx_int8_scratch_bytes(int64_t rows, int64_t k);
}  // namespace zeroulp::ops::linear_s8
#endif

namespace zeroulp::ops::linear_s8 {
void cuda_ref(const Args& args, const device::Launch& launch);
// The epilogue alone, on complete sums [rows, n]: after an exchange between tensor-parallel ranks.
void cuda_store(const Args& args, const int64_t* sums, const device::Launch& launch);
// Few rows: at most eight at memory speed.
void cuda_dp4a(const Args& args, const device::Launch& launch);
int64_t cuda_dp4a_workspace(const Args& args);
// Tensor cores; K in one part or as many as fill the GPU, and in three parts always.
void wgmma(const Args& args, const device::Launch& launch);
int64_t wgmma_workspace(const Args& args);
void wgmma_splitk(const Args& args, const device::Launch& launch);
int64_t wgmma_splitk_workspace(const Args& args);
// In builds that found the CUTLASS headers.
void cutlass_sm90(const Args& args, const device::Launch& launch);
int64_t cutlass_sm90_workspace(const Args& args);
// cuda_dp4a or wgmma, by the number of rows.
void cuda(const Args& args, const device::Launch& launch);
int64_t cuda_workspace(const Args& args);
}  // namespace zeroulp::ops::linear_s8
