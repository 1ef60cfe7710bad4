// The float weights of one layer, as the quantiser works on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/quantized_model.h"

namespace zeroulp::quant {

struct FloatLinear {
  int64_t n = 0, k = 0;
  std::vector<float> weights;  // [n, k]
  std::vector<float> bias;     // [n], or empty

  std::span<const float> row(int64_t i) const { return {weights.data() + i * k, static_cast<size_t>(k)}; }
  std::span<float> row(int64_t i) { return {weights.data() + i * k, static_cast<size_t>(k)}; }
};

struct FloatLayer {
  FloatLinear linears[model::kLinearsPerLayer];
  std::vector<uint16_t> input_norm, post_norm;  // bf16 [hidden]
  std::vector<uint16_t> q_norm, k_norm;         // bf16 [heads, head_dim] and [kv_heads, head_dim], or empty

  FloatLinear& operator[](model::LinearRole role) { return linears[static_cast<int>(role)]; }
  const FloatLinear& operator[](model::LinearRole role) const { return linears[static_cast<int>(role)]; }
};

Result<FloatLayer> load_layer(const model::Checkpoint& checkpoint, int64_t layer);

// Hugging Face's name of a linear's weights.
std::string weight_name(int64_t layer, model::LinearRole role);

// "layers.N.q_proj".
std::string linear_name(int64_t layer, model::LinearRole role);

}  // namespace zeroulp::quant
