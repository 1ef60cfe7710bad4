// The variants of this folder beside the reference, where the architecture or the build (those of a GPU: ZEROULP_CUDA) has them.
#pragma once

#include "ops/quant_rows/contract.h"

#if defined(__x86_64__)
namespace zeroulp::ops::quant_rows {
void avx2(const Args& args);
void avx512_vnni(const Args& args);
}  // namespace zeroulp::ops::quant_rows
#endif

namespace zeroulp::ops::quant_rows {
void cuda(const Args& args, const device::Launch& launch);
// tops[r] = the largest magnitude of row r: what tensor-parallel ranks exchange.
void cuda_absmax(const uint16_t* x, int64_t stride, int64_t rows, int64_t k, uint16_t* tops, const device::Launch& launch);
}  // namespace zeroulp::ops::quant_rows
