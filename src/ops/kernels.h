// The kernels that a decoder runs: one chosen variant per op.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "ops/argmax/contract.h"
#include "ops/attention/contract.h"
#include "ops/embedding/contract.h"
#include "ops/kv_cache/contract.h"
#include "ops/linear_s8/contract.h"
#include "ops/nll/contract.h"
#include "ops/quant_rows/contract.h"
#include "ops/residual/contract.h"
#include "ops/rmsnorm/contract.h"
#include "ops/rope/contract.h"
#include "ops/silu_mul/contract.h"

namespace zeroulp::ops {

struct Kernels {
  Variant<argmax::Fn> argmax{};
  Variant<attention::Fn> attention{};
  Variant<embedding::Fn> embedding{};
  Variant<linear_s8::Fn> linear_s8{};
  Variant<nll::Fn> nll{};
  Variant<quant_rows::Fn> quant_rows{};
  Variant<residual::Fn> residual{};
  Variant<rmsnorm::Fn> rmsnorm{};
  Variant<rope::Fn> rope{};
  Variant<silu_mul::Fn> silu_mul{};
  // Ops without variants.
  kv_cache::StoreFn* store = kv_cache::store;
  rope::TableFn* rope_table = num::sincos_bf16;

  // "op=variant" for every op, in the order above.
  std::vector<std::string> names() const;
};

// `wanted` is empty (the fastest of each op), a variant's name (where an op lacks it, the op's fastest that needs no more), or a
// comma-separated list of op=variant and at most one bare name. An unknown op or name is a usage error; a variant that cannot run here
// gives exit code 4.
Result<Kernels> select_kernels(std::string_view wanted, const CpuFeatures& cpu);

// The same for a GPU. `wanted` as above, but an op without a bare name's variant keeps the one that it would have had anyway.
struct DeviceKernels {
  argmax::OnDevice argmax{};
  attention::OnDevice attention{};
  embedding::OnDevice embedding{};
  linear_s8::OnDevice linear_s8{};
  nll::OnDevice nll{};
  quant_rows::OnDevice quant_rows{};
  residual::OnDevice residual{};
  rmsnorm::OnDevice rmsnorm{};
  rope::OnDevice rope{};
  silu_mul::OnDevice silu_mul{};

  std::vector<std::string> names() const;
};
Result<DeviceKernels> select_device_kernels(std::string_view wanted);

// All variant names that some op has, slowest first, with the reason when this processor cannot run them (empty: it can).
struct VariantStatus {
  std::string name, why_not;
};
std::vector<VariantStatus> variant_status(const CpuFeatures& cpu);
std::vector<VariantStatus> device_variant_status(int index);  // of a GPU; empty in a build without CUDA

}  // namespace zeroulp::ops
