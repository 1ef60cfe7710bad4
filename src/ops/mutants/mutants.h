// Standing mutants: for each op, variants that are wrong in a way that some real kernel was wrong. A mutant computes by a wrong rule; it never
// changes a right result afterwards. The suite must reject every one of them (Conformance.*): one that survives means that the suite cannot
// see its fault. The fault study (src/verify/faults) runs whole models under them, so they are as fast as plain code over the fast
// variants' exact sums can be.
#pragma once

#include <span>

#include "ops/kernels.h"

namespace zeroulp::ops::mutants {

std::span<const Variant<argmax::Fn>> of_argmax();
std::span<const Variant<attention::Fn>> of_attention();
std::span<const Variant<embedding::Fn>> of_embedding();
std::span<const Variant<kv_cache::StoreFn>> of_kv_cache();
std::span<const Variant<linear_s8::Fn>> of_linear_s8();
std::span<const Variant<nll::Fn>> of_nll();
std::span<const Variant<quant_rows::Fn>> of_quant_rows();
std::span<const Variant<residual::Fn>> of_residual();
std::span<const Variant<rmsnorm::Fn>> of_rmsnorm();
std::span<const Variant<rope::Fn>> of_rope();
std::span<const Variant<rope::TableFn>> of_rope_table();
std::span<const Variant<silu_mul::Fn>> of_silu_mul();

// Other code for the same rule, in ways that real kernels differ: not one bit may change. Why not is said where each is written; the suite
// must accept them.
std::span<const Variant<attention::Fn>> equivalents_of_attention();
std::span<const Variant<kv_cache::StoreFn>> equivalents_of_kv_cache();
std::span<const Variant<linear_s8::Fn>> equivalents_of_linear_s8();
std::span<const Variant<quant_rows::Fn>> equivalents_of_quant_rows();
std::span<const Variant<residual::Fn>> equivalents_of_residual();
std::span<const Variant<silu_mul::Fn>> equivalents_of_silu_mul();

// The frame that the attention mutants share, with nothing wrong in it: the suite must accept it.
void attention_without_fault(const attention::Args& args);

}  // namespace zeroulp::ops::mutants
