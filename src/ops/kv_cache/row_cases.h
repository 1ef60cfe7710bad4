// The inputs of the cache's quantiser row by row, for implementations with another layout of the cache (cases/forms.h). cases.h has those of store().
#pragma once

#include "ops/conformance.h"
#include "ops/kv_cache/contract.h"

namespace zeroulp::ops::kv_cache {

struct RowsArgs {
  const uint16_t* k;  // bf16 [rows, d]
  const uint16_t* v;  // bf16 [rows, d]
  int64_t rows, d;
  int key_width;
  int16_t* key_codes;       // [rows, d]
  float* key_scales;        // [rows]
  int8_t* value_codes;      // [rows, d]
  int8_t* value_exponents;  // [rows]; kZeroRow
  uint8_t* faults;          // [rows], set to 1 when store() refuses the row; otherwise left alone
};
using RowsFn = void(const RowsArgs&);

// By store(), into a block of its own.
void store_rows(const RowsArgs& args);

void row_cases(const conformance::Visit<RowsFn>& visit);

}  // namespace zeroulp::ops::kv_cache
