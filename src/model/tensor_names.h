// The tensors of a model under Hugging Face's names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace zeroulp::model {

inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kFinalNormName = "model.norm.weight";
inline constexpr const char* kHeadName = "lm_head.weight";

// "model.layers.{layer}.{part}", e.g. part "self_attn.q_proj.weight".
std::string layer_tensor_name(int64_t layer, const std::string& part);

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Every tensor that a model of this configuration has, embedding first, then layer by layer, then the final norm and, when the
// head is not tied, the head.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

}  // namespace zeroulp::model
