// What a decoder-only model of the supported families is made of: Llama 3.x, SmolLM2, Qwen2/2.5, Qwen3 (dense).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/json.h"

namespace zeroulp::model {

struct ModelConfig {
  std::string architecture;  // "llama", "qwen2" or "qwen3": Hugging Face's model_type
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;     // query heads
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;  // even; heads * head_dim need not equal hidden
  int64_t vocab = 0;     // rows of the embedding; may exceed the tokenizer's size
  int64_t max_positions = 0;
  float rms_eps = 0;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool tied_head = false;
  // RoPE, with every scaling rule already applied: head_dim / 2 frequencies as fp32, evaluated as Hugging Face does.
  std::vector<float> rope_frequencies;
  float rope_attention_factor = 1.0f;
  // Keys visible to position i start at max(0, i - window + 1); absent: all. Per layer.
  std::vector<std::optional<int64_t>> window;
  std::vector<int32_t> stop_tokens;  // union over config, generation_config and tokenizer_config; ascending
  std::optional<int32_t> bos_token;

  int64_t q_size() const { return heads * head_dim; }
  int64_t kv_size() const { return kv_heads * head_dim; }
};

// Reads a Hugging Face config.json (transformers v4 and v5 spellings) and, when given, generation_config.json. Refuses what it
// does not model, naming the key. `name` opens error lines.
Result<ModelConfig> parse_config(const io::Json& config, const io::Json* generation_config, const std::string& name);

}  // namespace zeroulp::model
