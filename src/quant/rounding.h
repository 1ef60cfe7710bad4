// Float matrices to int8 codes with one scale per row: scales by a rule, codes by rounding to nearest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "model/quantized_model.h"
#include "num/weight_scale.h"
#include "quant/layer_weights.h"

namespace zeroulp::quant {

struct CodedLinear {
  int64_t n = 0, k = 0;
  std::vector<int8_t> codes;  // [n, k]
  std::vector<float> scales;  // [n]
  std::vector<float> bias;    // [n], or empty
};

// Scales alone, codes left empty. A row whose scale would leave [2^-40, 2^8] is refused, naming `name` and the row.
Result<CodedLinear> choose_scales(const FloatLinear& linear, num::ScaleRule rule, const std::string& name, ThreadPool& pool);

// Scales and nearest codes.
Result<CodedLinear> round_linear(const FloatLinear& linear, num::ScaleRule rule, const std::string& name, ThreadPool& pool);

// Adds NAME.codes, NAME.scales and, where there is one, NAME.bias.
void add_linear(model::TensorMap& tensors, const std::string& name, const CodedLinear& linear);

// A view for the ops.
model::QuantizedLinear view_of(const CodedLinear& linear, int width);

}  // namespace zeroulp::quant
