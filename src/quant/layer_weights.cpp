#include "quant/layer_weights.h"

#include <fmt/format.h>

#include "model/tensor_names.h"

namespace zeroulp::quant {
namespace {

using model::LinearRole;

std::string hugging_face_part(LinearRole role, const char* suffix) {
  const std::string name(model::kLinearNames[static_cast<int>(role)]);
  return (role <= LinearRole::kO ? "self_attn." : "mlp.") + name + suffix;
}

// A norm shared by all heads, one copy per head: smoothing then scales each head by itself.
std::vector<uint16_t> repeated(const std::vector<uint16_t>& weights, int64_t heads) {
  std::vector<uint16_t> out;
  out.reserve(weights.size() * static_cast<size_t>(heads));
  for (int64_t h = 0; h < heads; ++h) out.insert(out.end(), weights.begin(), weights.end());
  return out;
}

}  // namespace

std::string weight_name(int64_t layer, LinearRole role) { return model::layer_tensor_name(layer, hugging_face_part(role, ".weight")); }

std::string linear_name(int64_t layer, LinearRole role) {
  return fmt::format("layers.{}.{}", layer, model::kLinearNames[static_cast<int>(role)]);
}

Result<FloatLayer> load_layer(const model::Checkpoint& checkpoint, int64_t layer) {
  const model::ModelConfig& c = checkpoint.config();
  const auto name = [&](const std::string& part) { return model::layer_tensor_name(layer, part); };
  FloatLayer out;
  for (int r = 0; r < model::kLinearsPerLayer; ++r) {
    const auto role = static_cast<LinearRole>(r);
    const model::LinearShape shape = model::linear_shape(c, role);
    FloatLinear& l = out[role];
    l.n = shape.n, l.k = shape.k;
    ZU_TRY_ASSIGN(l.weights, checkpoint.floats(name(hugging_face_part(role, ".weight"))));
    if (c.qkv_bias && role <= LinearRole::kV) {
      ZU_TRY_ASSIGN(l.bias, checkpoint.floats(name(hugging_face_part(role, ".bias"))));
    }
  }
  ZU_TRY_ASSIGN(out.input_norm, checkpoint.bf16(name("input_layernorm.weight")));
  ZU_TRY_ASSIGN(out.post_norm, checkpoint.bf16(name("post_attention_layernorm.weight")));
  if (c.qk_norm) {
    ZU_TRY_ASSIGN(const auto q, checkpoint.bf16(name("self_attn.q_norm.weight")));
    ZU_TRY_ASSIGN(const auto k, checkpoint.bf16(name("self_attn.k_norm.weight")));
    out.q_norm = repeated(q, c.heads);
    out.k_norm = repeated(k, c.kv_heads);
  }
  return out;
}

}  // namespace zeroulp::quant
