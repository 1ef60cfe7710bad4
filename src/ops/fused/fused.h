// Chains of element-wise and row-wise ops in one kernel each, for the GPU's decoder: the same rules (they call the ops' contract.h), the same
// bits as the ops one after another, fewer launches and fewer trips through memory. tests/device/fused_test.cpp compares with the references.
// Norm weights, positions and rotary tables may be read before the kernel ahead in the stream has ended (ops/early.cuh).
#pragma once

#include "device/device.h"
#include "ops/attention/contract.h"
#include "ops/kv_cache/contract.h"
#include "ops/linear_s8/contract.h"

namespace zeroulp::ops::fused {

// residual, rmsnorm, quant_rows.
struct NormQuant {
  uint16_t* x;          // bf16 [rows, d]; x = residual(x, add) when `add` is given
  const uint16_t* add;  // bf16 [rows, d], or null
  int64_t rows, d;
  const uint16_t* weight;  // bf16 [d]
  float eps;
  uint16_t* h;  // bf16 [rows, d]: the normed rows
  int width;
  num::RowRange range;
  int16_t* codes;  // [rows, d], row stride codes_stride
  int64_t codes_stride;
  float* scales;    // [rows]
  uint8_t* faults;  // [rows]
};

// QK-norm where there is one, rope, quant_rows of the queries at 15 bits, kv_cache.
struct Heads {
  const uint16_t* qkv;  // bf16 [rows, (heads + 2 kv_heads) d]: queries, keys, values; row stride `stride`
  int64_t stride, rows, heads, kv_heads, d;
  const uint16_t* q_norm;  // bf16 [heads, d], or null
  const uint16_t* k_norm;  // bf16 [kv_heads, d], or null
  float eps;
  const int32_t* positions;  // [rows]
  const uint16_t* cos;       // as in rope
  const uint16_t* sin;
  int16_t* q_codes;  // [rows, heads, d]
  float* q_scales;   // [rows, heads]
  kv_cache::Layout layout;
  kv_cache::Pages pages;
  uint8_t* q_faults;   // [rows]
  uint8_t* kv_faults;  // [rows]
};

// silu_mul, quant_rows.
struct SiluQuant {
  const uint16_t* gate;  // bf16 [rows, k], row stride `stride`
  const uint16_t* up;    // the same
  int64_t stride, rows, k;
  uint16_t* y;  // bf16 [rows, k]: the products
  int width;
  num::RowRange range;
  int16_t* codes;  // [rows, k], row stride codes_stride
  int64_t codes_stride;
  float* scales;
  uint8_t* faults;
  uint16_t* tops;  // given: codes and scales are left alone, and the rows' largest magnitudes go here (tensor parallelism)
};

// heads, then attention of the same rows, of which no two are of one sequence: the queries' codes and scales of `heads` and `attention` are not written and
// not read, everything else agrees between the two. In attention/cuda.cu.
bool heads_attention_fits(const attention::Rows& attention);
void heads_attention(const Heads& heads, const attention::Rows& attention, const device::Launch& launch);

// Linears of one row with their neighbours. The row of bf16 that the linear quantises starts at a multiple of 16 bytes.
struct RowInput {
  const uint16_t* x;  // bf16 [k]
  int64_t k;
  num::RowRange range;
  uint8_t* faults;  // one flag
};
struct NormInput {
  RowInput rows;
  const uint16_t* weight;  // bf16 [k], at a multiple of 16 bytes
  float eps;
};
// Whether the kernels below take a row of k inputs: k is a multiple of 16, and the codes fit a multiprocessor (k <= 81920).
bool linear_fits(int64_t k);
// The linear's codes, their stride and row_scales are not read: the input takes their place. Weights start and continue at multiples of 16 bytes.
// rmsnorm, quant_rows, linear_s8.
void norm_linear(const NormInput& in, const linear_s8::Args& linear, const device::Launch& launch);
// rmsnorm, quant_rows, linear_s8 of gate and up joined, silu_mul: y is bf16 [n / 2]; the linear's y is not written.
void norm_linear_silu(const NormInput& in, const linear_s8::Args& gate_up, uint16_t* y, const device::Launch& launch);
// quant_rows, linear_s8, residual: x [n] = residual(x, linear).
void linear_residual(const RowInput& in, const linear_s8::Args& linear, uint16_t* x, const device::Launch& launch);

void norm_quant(const NormQuant& args, const device::Launch& launch);
void heads(const Heads& args, const device::Launch& launch);
void silu_quant(const SiluQuant& args, const device::Launch& launch);
// y[i] = x[indices[i]], rows of d bf16.
void gather_rows(const uint16_t* x, const int32_t* indices, int64_t rows, int64_t d, uint16_t* y, const device::Launch& launch);
// Rows' largest magnitudes as int32 and back: what NCCL can take maxima of.
void widen(const uint16_t* from, int64_t count, int32_t* to, const device::Launch& launch);
void narrow(const int32_t* from, int64_t count, uint16_t* to, const device::Launch& launch);
// *first = the lowest index of a flag that is set, or -1. `first` may be page-locked host memory.
void first_flag(const uint8_t* flags, int64_t count, int64_t* first, const device::Launch& launch);

}  // namespace zeroulp::ops::fused
