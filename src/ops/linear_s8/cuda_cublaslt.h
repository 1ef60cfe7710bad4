// linear_s8 with the sums of cuBLASLt's int8 product and our epilogue. The library is looked for at run time; it is no part of this program.
#pragma once

#include <string>

#include "ops/linear_s8/contract.h"

namespace zeroulp::ops::linear_s8 {

std::string why_no_cublaslt();  // empty: it can run
void cublaslt(const Args& args, const device::Launch& launch);
int64_t cublaslt_workspace(const Args& args);
// The same sums behind the epilogues of foreign.h, for 8-bit codes and bf16 or fp32 output; the workspace of cublaslt.
void cublaslt_cutlass_order(const Args& args, const device::Launch& launch);
void cublaslt_triton_order(const Args& args, const device::Launch& launch);

// The product alone, for measurements: sums[rows][n] = codes[rows][k] * weights[n][k]^T; rows, n and k multiples of 16. Uses 32 MiB of the
// workspace.
void cublaslt_product(const device::Launch& launch, const int8_t* codes, const int8_t* weights, int64_t rows, int64_t n, int64_t k, int32_t* sums);

}  // namespace zeroulp::ops::linear_s8
