// Chains of element-wise and row-wise ops in one kernel each, for the GPU's decoder: the same rules (they call the ops' contract.h), the same
// bits as the ops one after another, fewer launches and fewer trips through memory. tests/device/fused_test.cpp compares with the references.
// Norm weights, positions and rotary tables may be read before the kernel ahead in the stream has ended (ops/early.cuh).
#pragma once

#include "device/device.h"
#include "ops/kv_cache/contract.h"

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
  int16_t* codes;  // [rows, k], row stride codes_stride
  int64_t codes_stride;
  float* scales;
  uint8_t* faults;
  uint16_t* tops;  // given: codes and scales are left alone, and the rows' largest magnitudes go here (tensor parallelism)
};

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
