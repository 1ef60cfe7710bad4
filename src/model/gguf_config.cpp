#include "model/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "model/rope.h"

namespace zeroulp::model {
namespace {

using nlohmann::ordered_json;

// Options of other architectures that a decoder of these families has no place for.
constexpr const char* kUnmodelled[] = {
    "{arch}.attention.clamp_kqv",
    "{arch}.attention.max_alibi_bias",
    "{arch}.attention.scale",
    "{arch}.attention.sliding_window",
    "{arch}.attn_logit_softcapping",
    "{arch}.embedding_scale",
    "{arch}.expert_count",
    "{arch}.expert_used_count",
    "{arch}.final_logit_softcapping",
    "{arch}.logit_scale",
    "{arch}.residual_scale",
    "{arch}.use_parallel_residual",
};

Status refuse_unmodelled(const GgufKeys& keys) {
  for (const char* key : kUnmodelled) {
    if (!keys.has(key)) continue;
    const io::GgufValue* v = keys.model().value(keys.architecture() + std::string(key).substr(6));
    const bool off = v->integer() == 0 || v->number() == 0.0 || v->boolean() == false;
    if (!off) return keys.error(key, "is not supported for this architecture");
  }
  return {};
}

// Factors by which llama3's rule divides each frequency, as converters compute them for the tensor rope_freqs.
std::vector<float> llama3_divisors(double theta, int64_t head_dim, double factor, double original) {
  constexpr double kLow = 1, kHigh = 4;
  std::vector<float> out;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(head_dim));
    const double smooth = (original / wavelength - kLow) / (kHigh - kLow);
    out.push_back(static_cast<float>(smooth < 0 ? factor : smooth > 1 ? 1.0 : 1 / ((1 - smooth) / factor + smooth)));
  }
  return out;
}

bool close(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) { return std::fabs(x - y) <= 1e-4f * y; });
}

// The tensor rope_freqs holds divisors, not the rule that made them. The rule is found again by trying the contexts that llama3
// models were trained with; divisors of any other rule are refused.
Result<ordered_json> rope_from_divisors(const GgufKeys& keys, const io::GgufTensor& tensor, double theta, int64_t head_dim) {
  if (tensor.type->type != io::GgufType::kF32 || tensor.elements() != head_dim / 2)
    return keys.error("tensor rope_freqs.weight", fmt::format("is not F32 with {} elements", head_dim / 2));
  std::vector<float> divisors(static_cast<size_t>(head_dim / 2));
  std::memcpy(divisors.data(), tensor.data.data(), tensor.data.size());
  const float factor = *std::max_element(divisors.begin(), divisors.end());
  if (close(divisors, std::vector<float>(divisors.size(), 1.0f))) return ordered_json();
  for (const int64_t original : {8192, 4096, 2048, 16384, 32768, 65536, 131072}) {
    if (!close(divisors, llama3_divisors(theta, head_dim, factor, static_cast<double>(original)))) continue;
    return ordered_json{{"rope_type", "llama3"},
                        {"factor", factor},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", original}};
  }
  return keys.error("tensor rope_freqs.weight",
                    "its divisors follow no llama3 rule with factors 1 and 4, so no config.json can state them");
}

Result<ordered_json> rope_scaling(const GgufKeys& keys, double theta, int64_t head_dim) {
  ZU_TRY_ASSIGN(const auto type, keys.optional_text("{arch}.rope.scaling.type"));
  if (const io::GgufTensor* divisors = keys.model().find("rope_freqs.weight")) {
    if (type && *type != "none")
      return keys.error("{arch}.rope.scaling.type", "stands beside the tensor rope_freqs.weight; only one is possible");
    return rope_from_divisors(keys, *divisors, theta, head_dim);
  }
  if (!type || *type == "none") {
    ZU_TRY_ASSIGN(const double scale, keys.number_or("{arch}.rope.scale_linear", 1.0));
    if (scale == 1.0) return ordered_json();
    return ordered_json{{"rope_type", "linear"}, {"factor", scale}};
  }
  ZU_TRY_ASSIGN(const double factor, keys.number("{arch}.rope.scaling.factor"));
  if (*type == "linear") return ordered_json{{"rope_type", "linear"}, {"factor", factor}};
  if (*type != "yarn")
    return keys.error("{arch}.rope.scaling.type", fmt::format("\"{}\" is not supported; none, linear and yarn are", *type));
  for (const char* key : {"{arch}.rope.scaling.yarn_log_multiplier", "{arch}.rope.scaling.yarn_ext_factor"})
    if (keys.has(key)) return keys.error(key, "is not supported");
  ZU_TRY_ASSIGN(const int64_t original, keys.integer("{arch}.rope.scaling.original_context_length"));
  ordered_json out{{"rope_type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", original}};
  for (const auto& [key, name] : {std::pair("{arch}.rope.scaling.attn_factor", "attention_factor"),
                                  std::pair("{arch}.rope.scaling.yarn_beta_fast", "beta_fast"),
                                  std::pair("{arch}.rope.scaling.yarn_beta_slow", "beta_slow")}) {
    if (!keys.has(key)) continue;
    ZU_TRY_ASSIGN(out[name], keys.number(key));
  }
  return out;
}

struct Sizes {
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, positions, vocab;
};

Result<Sizes> read_sizes(const GgufKeys& keys) {
  Sizes s{};
  ZU_TRY_ASSIGN(s.hidden, keys.integer("{arch}.embedding_length"));
  ZU_TRY_ASSIGN(s.intermediate, keys.integer("{arch}.feed_forward_length"));
  ZU_TRY_ASSIGN(s.layers, keys.integer("{arch}.block_count"));
  ZU_TRY_ASSIGN(s.heads, keys.integer("{arch}.attention.head_count"));
  ZU_TRY_ASSIGN(s.positions, keys.integer("{arch}.context_length"));
  ZU_TRY_ASSIGN(const auto kv_heads, keys.optional_integer("{arch}.attention.head_count_kv"));
  s.kv_heads = kv_heads.value_or(s.heads);
  if (s.heads == 0) return keys.error("{arch}.attention.head_count", "is 0");
  ZU_TRY_ASSIGN(const auto key_length, keys.optional_integer("{arch}.attention.key_length"));
  s.head_dim = key_length.value_or(s.hidden / s.heads);
  for (const char* key : {"{arch}.attention.value_length", "{arch}.rope.dimension_count"}) {
    ZU_TRY_ASSIGN(const auto length, keys.optional_integer(key));
    if (length.value_or(s.head_dim) != s.head_dim)
      return keys.error(key, fmt::format("{} differs from the head size {}, which is not supported", *length, s.head_dim));
  }
  const io::GgufTensor* embedding = keys.model().find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    return keys.error("tensor token_embd.weight", "is missing or not a matrix");
  s.vocab = embedding->shape[0];
  return s;
}

// End-of-turn and end-of-message tokens stop generation as the end-of-text token does.
Status add_token_ids(const GgufKeys& keys, ordered_json& config, ordered_json& generation) {
  for (const auto& [key, name] :
       {std::pair("tokenizer.ggml.bos_token_id", "bos_token_id"), std::pair("tokenizer.ggml.eos_token_id", "eos_token_id"),
        std::pair("tokenizer.ggml.padding_token_id", "pad_token_id")}) {
    ZU_TRY_ASSIGN(const auto id, keys.optional_integer(key));
    if (id) config[name] = generation[name] = *id;
  }
  std::vector<int64_t> stops;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    ZU_TRY_ASSIGN(const auto id, keys.optional_integer(key));
    if (id && std::find(stops.begin(), stops.end(), *id) == stops.end()) stops.push_back(*id);
  }
  if (stops.size() > 1) generation["eos_token_id"] = stops;
  return {};
}

}  // namespace

Result<GgufConfig> config_from_gguf(const GgufKeys& keys) {
  ZU_TRY(refuse_unmodelled(keys));
  ZU_TRY_ASSIGN(const Sizes s, read_sizes(keys));
  ZU_TRY_ASSIGN(const double theta, keys.number_or("{arch}.rope.freq_base", 10000.0));
  ZU_TRY_ASSIGN(const double eps, keys.number("{arch}.attention.layer_norm_rms_epsilon"));
  if (s.head_dim < 2 || s.head_dim > 4096 || s.head_dim % 2 != 0 || !(theta > 1))
    return keys.error("{arch}.attention.key_length",
                      fmt::format("a head size of {} with frequency base {} cannot be rotated", s.head_dim, theta));
  ZU_TRY_ASSIGN(const ordered_json scaling, rope_scaling(keys, theta, s.head_dim));
  const std::string& arch = keys.architecture();
  GgufConfig out;
  ordered_json& c = out.config;
  c["architectures"] = {arch == "llama" ? "LlamaForCausalLM" : arch == "qwen2" ? "Qwen2ForCausalLM" : "Qwen3ForCausalLM"};
  c["model_type"] = arch;
  c["hidden_size"] = s.hidden;
  c["intermediate_size"] = s.intermediate;
  c["num_hidden_layers"] = s.layers;
  c["num_attention_heads"] = s.heads;
  c["num_key_value_heads"] = s.kv_heads;
  c["head_dim"] = s.head_dim;
  c["hidden_act"] = "silu";
  c["rms_norm_eps"] = eps;
  c["rope_theta"] = theta;
  if (!scaling.is_null()) c["rope_scaling"] = scaling;
  c["max_position_embeddings"] = s.positions;
  c["vocab_size"] = s.vocab;
  c["tie_word_embeddings"] = keys.model().find("output.weight") == nullptr;
  if (arch != "qwen2") c["attention_bias"] = false;
  if (arch == "llama") c["mlp_bias"] = false;
  if (arch != "llama") c["use_sliding_window"] = false;
  ZU_TRY(add_token_ids(keys, c, out.generation_config));
  c["torch_dtype"] = "bfloat16";
  return out;
}

}  // namespace zeroulp::model
