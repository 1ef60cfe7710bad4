// Recording: functions with the signatures of variants that turn the arguments they are called with into a case.
#pragma once

#include <functional>

#include "cases/case.h"
#include "ops/kernels.h"
#include "ops/kv_cache/row_cases.h"
#include "ops/sample/cases.h"

namespace zeroulp::cases {

// Gives a case to the innermost Recording of this thread.
void hand_over(Case&& c);

// While it lives, recorders that this thread calls hand over what they were given: op, attributes, inputs and the outputs asked for.
class Recording {
 public:
  explicit Recording(std::function<void(Case&&)> sink);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  std::function<void(Case&&)> sink_;
  Recording* outer_;
  friend void hand_over(Case&& c);
};

// Recorders. Without a Recording on the thread they do nothing.
namespace record {
void quant_rows(const ops::quant_rows::Args& args);
void linear_s8(const ops::linear_s8::Args& args);
void rmsnorm(const ops::rmsnorm::Args& args);
void residual(const ops::residual::Args& args);
void embedding(const ops::embedding::Args& args);
void silu_mul(const ops::silu_mul::Args& args);
void rope(const ops::rope::Args& args);
void kv_cache(const ops::kv_cache::RowsArgs& args);
void attention(const ops::attention::Args& args);
void argmax(ops::argmax::Args& args);
void nll(ops::nll::Args& args);
void sample(ops::sample::DrawArgs& args);
}  // namespace record

}  // namespace zeroulp::cases
