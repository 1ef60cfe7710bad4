// Codes that together give the least error on calibration inputs (GPTQ; the same result as Babai's nearest plane): columns are rounded one
// after another, each taking up the error of those before it as the inputs' second moments ask.
//
// With H = L L^T over the columns, the columns from last to first:
//   q_j = clamp(rne((w_j + sum over i > j of d_i L_ij / L_jj) / scale)),   d_i = w_i - q_i scale.
#pragma once

#include "base/threads.h"
#include "quant/hessian.h"
#include "quant/rounding.h"

namespace zeroulp::quant {

// A factored Hessian, shared by the linears with the same input.
class GptqBasis {
 public:
  // Damping: 1 % of the mean of the diagonal is added to it. Consumes the Hessian.
  static GptqBasis factor(Hessian hessian, ThreadPool& pool);

  // Fills linear.codes for the scales at hand.
  void round(const FloatLinear& weights, CodedLinear& linear, ThreadPool& pool) const;

 private:
  explicit GptqBasis(Hessian h) : order_(std::move(h.order)), l_(std::move(h.matrix)) {}

  std::vector<int32_t> order_;
  LowerMatrix l_;  // L_ij / L_jj below the diagonal
};

// The sum over rows of (w - q s)^T H (w - q s): what GPTQ lowers. For tests and reports.
double weighted_error(const FloatLinear& weights, const CodedLinear& linear, const Hessian& hessian);

}  // namespace zeroulp::quant
