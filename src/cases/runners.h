// Variants of an op as runners of its cases: the op's own, or others with the same signature.
#pragma once

#include "cases/forms.h"
#include "ops/kernels.h"
#include "ops/kv_cache/row_cases.h"
#include "ops/sample/cases.h"

namespace zeroulp::cases {

std::vector<Runner> runners_of(std::span<const ops::Variant<ops::quant_rows::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::linear_s8::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::rmsnorm::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::residual::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::embedding::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::silu_mul::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::rope::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::kv_cache::RowsFn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::attention::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::argmax::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::nll::Fn>> table, const CpuFeatures& cpu);
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::sample::DrawFn>> table, const CpuFeatures& cpu);

}  // namespace zeroulp::cases
