// The GPU's choice between the variants of this folder: for a few rows the memory limits, for more the arithmetic.
#include "ops/linear_s8/fast.h"

namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int64_t kFewRows = 4;  // measured: bench/results/h200

}  // namespace

void cuda(const Args& a, const device::Launch& launch) { a.rows <= kFewRows ? cuda_dp4a(a, launch) : wgmma(a, launch); }
int64_t cuda_workspace(const Args& a) { return a.rows <= kFewRows ? cuda_dp4a_workspace(a) : wgmma_workspace(a); }

}  // namespace zeroulp::ops::linear_s8
