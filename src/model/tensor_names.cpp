#include "model/tensor_names.h"

#include <fmt/format.h>

namespace zeroulp::model {

std::string layer_tensor_name(int64_t layer, const std::string& part) { return fmt::format("model.layers.{}.{}", layer, part); }

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& c) {
  std::vector<ExpectedTensor> out;
  out.push_back({kEmbeddingName, {c.vocab, c.hidden}});
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto add = [&](const char* part, std::vector<int64_t> shape) {
      out.push_back({layer_tensor_name(layer, part), std::move(shape)});
    };
    add("input_layernorm.weight", {c.hidden});
    add("self_attn.q_proj.weight", {c.q_size(), c.hidden});
    add("self_attn.k_proj.weight", {c.kv_size(), c.hidden});
    add("self_attn.v_proj.weight", {c.kv_size(), c.hidden});
    if (c.qkv_bias) {
      add("self_attn.q_proj.bias", {c.q_size()});
      add("self_attn.k_proj.bias", {c.kv_size()});
      add("self_attn.v_proj.bias", {c.kv_size()});
    }
    if (c.qk_norm) {
      add("self_attn.q_norm.weight", {c.head_dim});
      add("self_attn.k_norm.weight", {c.head_dim});
    }
    add("self_attn.o_proj.weight", {c.hidden, c.q_size()});
    add("post_attention_layernorm.weight", {c.hidden});
    add("mlp.gate_proj.weight", {c.intermediate, c.hidden});
    add("mlp.up_proj.weight", {c.intermediate, c.hidden});
    add("mlp.down_proj.weight", {c.hidden, c.intermediate});
  }
  out.push_back({kFinalNormName, {c.hidden}});
  if (!c.tied_head) out.push_back({kHeadName, {c.vocab, c.hidden}});
  return out;
}

}  // namespace zeroulp::model
