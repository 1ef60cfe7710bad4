#include "quant/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace zeroulp::quant {
namespace {

Error scale_out_of_range(const FloatLinear& linear, int64_t row, const std::string& name) {
  float a = 0;
  for (const float w : linear.row(row)) a = std::max(a, std::fabs(w));
  return bad_input(fmt::format(
      "{}: output channel {} has a largest weight of {}, whose int8 scale would leave [2^-40, 2^8]; set the channel to zero or rescale it",
      name, row, a));
}

constexpr int64_t kRowGrain = 16;

}  // namespace

Result<CodedLinear> choose_scales(const FloatLinear& linear, num::ScaleRule rule, const std::string& name, ThreadPool& pool) {
  CodedLinear out;
  out.n = linear.n, out.k = linear.k;
  out.bias = linear.bias;
  out.scales.resize(static_cast<size_t>(linear.n));
  pool.parallel_for(linear.n, kRowGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) out.scales[static_cast<size_t>(i)] = num::weight_scale(linear.row(i), rule).value_or(0.0f);
  });
  const auto bad = std::find(out.scales.begin(), out.scales.end(), 0.0f);
  if (bad != out.scales.end()) return scale_out_of_range(linear, bad - out.scales.begin(), name);
  return out;
}

Result<CodedLinear> round_linear(const FloatLinear& linear, num::ScaleRule rule, const std::string& name, ThreadPool& pool) {
  ZU_TRY_ASSIGN(CodedLinear out, choose_scales(linear, rule, name, pool));
  out.codes.resize(linear.weights.size());
  pool.parallel_for(linear.n, kRowGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float scale = out.scales[static_cast<size_t>(i)];
      int8_t* codes = out.codes.data() + i * linear.k;
      for (const float w : linear.row(i)) *codes++ = num::weight_code(w, scale);
    }
  });
  return out;
}

void add_linear(model::TensorMap& tensors, const std::string& name, const CodedLinear& linear) {
  tensors[name + ".codes"] = model::make_tensor(Dtype::kI8, {linear.n, linear.k}, linear.codes);
  tensors[name + ".scales"] = model::make_tensor(Dtype::kF32, {linear.n}, linear.scales);
  if (!linear.bias.empty()) tensors[name + ".bias"] = model::make_tensor(Dtype::kF32, {linear.n}, linear.bias);
}

model::QuantizedLinear view_of(const CodedLinear& linear, int width) {
  return {linear.n, linear.k, width, linear.codes.data(), linear.scales.data(), linear.bias.empty() ? nullptr : linear.bias.data()};
}

}  // namespace zeroulp::quant
