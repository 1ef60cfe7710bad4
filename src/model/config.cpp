#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "io/fields.h"
#include "model/compressed_tensors.h"
#include "model/rope.h"

namespace zeroulp::model {
namespace {

using io::Fields;
using io::Json;

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxSize = int64_t{1} << 24;  // hidden, intermediate, heads x head_dim
constexpr int64_t kMaxVocab = int64_t{1} << 28;
constexpr int64_t kMaxPositions = int64_t{1} << 30;
constexpr double kMaxTheta = 1e15;

struct Family {
  const char* model_type;
  const char* architecture;
  bool qkv_bias;
  bool qk_norm;
  int64_t default_head_dim;  // when config.json has no head_dim; 0: hidden / heads
};
constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", false, false, 0},
    {"qwen2", "Qwen2ForCausalLM", true, false, 0},
    {"qwen3", "Qwen3ForCausalLM", false, true, 128},
};

Result<const Family*> read_family(const Fields& keys) {
  ZU_TRY_ASSIGN(const std::string type, keys.string("model_type"));
  const auto* family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const Family& f) { return type == f.model_type; });
  if (family == std::end(kFamilies))
    return keys.error("model_type", fmt::format("{} is not supported; llama, qwen2 and qwen3 are", in_quotes(type)));
  if (keys.has("architectures") && keys.at("architectures") != Json::array({family->architecture}))
    return keys.error("architectures", fmt::format("{} is not supported for model_type {}; [\"{}\"] is",
                                                   io::shown(keys.at("architectures")), type, family->architecture));
  return family;
}

// Options that would change the computation and that no supported family uses.
Status refuse_unmodelled(const Fields& keys) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    ZU_TRY_ASSIGN(const bool on, keys.boolean_or(key, false));
    if (on) return keys.error(key, "true is not supported: biases of the output and MLP projections are not modelled");
  }
  ZU_TRY_ASSIGN(const std::string act, keys.string("hidden_act"));
  if (act != "silu" && act != "swish")
    return keys.error("hidden_act", fmt::format("{} is not supported; silu is", in_quotes(act)));
  ZU_TRY(parse_compressed_tensors(keys.json(), keys.name()));
  if (keys.has("partial_rotary_factor")) {
    ZU_TRY_ASSIGN(const double share, keys.positive("partial_rotary_factor", 1.0));
    if (share != 1.0) return keys.error("partial_rotary_factor", "only 1 is supported");
  }
  return {};
}

Status read_sizes(const Fields& keys, const Family& family, ModelConfig& c) {
  ZU_TRY_ASSIGN(c.hidden, keys.integer("hidden_size", 1, kMaxSize));
  ZU_TRY_ASSIGN(c.intermediate, keys.integer("intermediate_size", 1, kMaxSize));
  ZU_TRY_ASSIGN(c.layers, keys.integer("num_hidden_layers", 1, kMaxLayers));
  ZU_TRY_ASSIGN(c.heads, keys.integer("num_attention_heads", 1, kMaxSize));
  ZU_TRY_ASSIGN(c.kv_heads, keys.integer_or("num_key_value_heads", c.heads, 1, kMaxSize));
  ZU_TRY_ASSIGN(c.vocab, keys.integer("vocab_size", 1, kMaxVocab));
  ZU_TRY_ASSIGN(c.max_positions, keys.integer("max_position_embeddings", 1, kMaxPositions));
  if (c.heads % c.kv_heads != 0)
    return keys.error("num_key_value_heads", fmt::format("{} does not divide the {} query heads", c.kv_heads, c.heads));
  if (keys.has("head_dim")) {
    ZU_TRY_ASSIGN(c.head_dim, keys.integer("head_dim", 1, kMaxHeadDim));
  } else if (family.default_head_dim > 0 && !keys.json().contains("head_dim")) {
    c.head_dim = family.default_head_dim;
  } else {
    if (c.hidden % c.heads != 0)
      return keys.error("head_dim",
                        fmt::format("is missing, and the {} heads do not divide hidden_size {}", c.heads, c.hidden));
    c.head_dim = c.hidden / c.heads;
  }
  if (c.head_dim % 2 != 0 || c.head_dim > kMaxHeadDim)
    return keys.error("head_dim", fmt::format("{} is not an even number up to {}", c.head_dim, kMaxHeadDim));
  if (c.q_size() > kMaxSize)
    return keys.error("num_attention_heads",
                      fmt::format("{} heads of {} are above the limit of {}", c.heads, c.head_dim, kMaxSize));
  return {};
}

// The one dictionary of RoPE options: rope_parameters (v5), or rope_scaling (v4), which Hugging Face prefers when both stand there.
Result<Json> rope_dictionary(const Fields& keys) {
  const Json empty = Json::object();
  const auto usable = [&](const char* key) { return keys.has(key) && keys.at(key) != empty; };
  const char* key = usable("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (usable("rope_scaling") && usable("rope_parameters") && keys.at("rope_scaling") != keys.at("rope_parameters"))
    return keys.error("rope_parameters", "differs from rope_scaling; keep one of the two");
  Json rope = usable(key) ? keys.at(key) : empty;
  if (!rope.is_object()) return keys.error(key, "is not an object");
  for (const auto& [field, value] : rope.items())
    if (value.is_object())
      return keys.error(key, fmt::format("holds the object {}; rules per layer type are not supported", in_quotes(field)));
  if (!rope.contains("rope_theta") && keys.has("rope_theta")) rope["rope_theta"] = keys.at("rope_theta");
  if (!rope.contains("rope_type")) rope["rope_type"] = rope.contains("type") ? rope["type"] : Json("default");
  // A value at top level wins, and max_position_embeddings stands in when there is none.
  if (keys.has("original_max_position_embeddings")) {
    rope["original_max_position_embeddings"] = keys.at("original_max_position_embeddings");
  } else if (!rope.contains("original_max_position_embeddings") && keys.has("max_position_embeddings")) {
    rope["original_max_position_embeddings"] = keys.at("max_position_embeddings");
  }
  return rope;
}

Result<RopeRule> read_llama3(const Fields& rope) {
  RopeLlama3 r{};
  ZU_TRY_ASSIGN(r.factor, rope.positive("factor", 1e6));
  ZU_TRY_ASSIGN(r.low_freq_factor, rope.positive("low_freq_factor", 1e6));
  ZU_TRY_ASSIGN(r.high_freq_factor, rope.positive("high_freq_factor", 1e6));
  ZU_TRY_ASSIGN(r.original_positions, rope.positive("original_max_position_embeddings", static_cast<double>(kMaxPositions)));
  if (r.high_freq_factor <= r.low_freq_factor)
    return rope.error("high_freq_factor",
                      fmt::format("{} is not above low_freq_factor {}", r.high_freq_factor, r.low_freq_factor));
  return RopeRule(r);
}

Result<RopeRule> read_yarn(const Fields& rope, const ModelConfig& c) {
  RopeYarn r{};
  ZU_TRY_ASSIGN(r.original_positions, rope.positive("original_max_position_embeddings", static_cast<double>(kMaxPositions)));
  ZU_TRY_ASSIGN(r.factor, rope.positive_or("factor", static_cast<double>(c.max_positions) / r.original_positions, 1e6));
  ZU_TRY_ASSIGN(r.beta_fast, rope.positive_or("beta_fast", 32, 1e6));
  ZU_TRY_ASSIGN(r.beta_slow, rope.positive_or("beta_slow", 1, 1e6));
  ZU_TRY_ASSIGN(r.truncate, rope.boolean_or("truncate", true));
  ZU_TRY_ASSIGN(const double mscale, rope.positive_or("mscale", 0, 1e6));
  ZU_TRY_ASSIGN(const double mscale_all_dim, rope.positive_or("mscale_all_dim", 0, 1e6));
  ZU_TRY_ASSIGN(r.attention_factor,
                rope.positive_or("attention_factor", yarn_attention_factor(r.factor, mscale, mscale_all_dim), 1e6));
  return RopeRule(r);
}

Result<RopeRule> read_rope_rule(const Fields& rope, const ModelConfig& c) {
  ZU_TRY_ASSIGN(const std::string type, rope.string("rope_type"));
  if (type == "default") return RopeRule(RopeDefault{});
  if (type == "linear") {
    ZU_TRY_ASSIGN(const double factor, rope.positive("factor", 1e6));
    return RopeRule(RopeLinear{factor});
  }
  if (type == "llama3") return read_llama3(rope);
  if (type == "yarn") return read_yarn(rope, c);
  return rope.error("rope_type", fmt::format("{} is not supported; default, linear, llama3 and yarn are", in_quotes(type)));
}

Status read_rope(const Fields& keys, ModelConfig& c) {
  ZU_TRY_ASSIGN(const Json dictionary, rope_dictionary(keys));
  ZU_TRY_ASSIGN(const Fields rope, Fields::of(dictionary, keys.name() + ": rope"));
  if (rope.has("partial_rotary_factor") && dictionary["partial_rotary_factor"] != 1.0)
    return rope.error("partial_rotary_factor", "only 1 is supported");
  if (!rope.has("rope_theta") && c.architecture != "llama")
    return rope.error("rope_theta", "stands neither at top level nor in rope_parameters");
  ZU_TRY_ASSIGN(const double theta, rope.positive_or("rope_theta", 10000.0, kMaxTheta));
  if (!(theta > 1)) return rope.error("rope_theta", fmt::format("{} is not above 1", theta));
  ZU_TRY_ASSIGN(const RopeRule rule, read_rope_rule(rope, c));
  if (const auto* yarn = std::get_if<RopeYarn>(&rule)) c.rope_attention_factor = static_cast<float>(yarn->attention_factor);
  c.rope_frequencies = rope_frequencies(theta, c.head_dim, rule);
  for (const float f : c.rope_frequencies)
    if (!std::isnormal(f)) return rope.error("rope_theta", fmt::format("{} gives a frequency of {}", theta, f));
  return {};
}

Status read_windows(const Fields& keys, ModelConfig& c) {
  c.window.assign(static_cast<size_t>(c.layers), std::nullopt);
  if (c.architecture == "llama") {
    if (keys.has("sliding_window")) return keys.error("sliding_window", "is not part of the llama architecture");
    return {};
  }
  ZU_TRY_ASSIGN(const bool used, keys.boolean_or("use_sliding_window", false));
  std::optional<int64_t> window;
  if (used && keys.has("sliding_window")) {
    ZU_TRY_ASSIGN(window, keys.integer("sliding_window", 1, kMaxPositions));
  }
  if (!keys.has("layer_types")) {
    ZU_TRY_ASSIGN(const int64_t first, keys.integer_or("max_window_layers", 28, 0, kMaxLayers));
    for (int64_t i = first; i < c.layers; ++i) c.window[static_cast<size_t>(i)] = window;
    return {};
  }
  const Json& types = keys.at("layer_types");
  if (!types.is_array() || types.size() != static_cast<size_t>(c.layers))
    return keys.error("layer_types", fmt::format("is not a list of {} entries", c.layers));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "full_attention") continue;
    if (types[i] != "sliding_attention")
      return keys.error("layer_types", fmt::format("{} is not supported", io::shown(types[i])));
    if (!window) return keys.error("layer_types", "a layer slides, but use_sliding_window and sliding_window give no window");
    c.window[i] = window;
  }
  return {};
}

// Adds an id or a list of ids.
Status add_stop_tokens(const Fields& keys, const ModelConfig& c, std::set<int32_t>& stops) {
  if (!keys.has("eos_token_id")) return {};
  const Json list = keys.at("eos_token_id").is_array() ? keys.at("eos_token_id") : Json::array({keys.at("eos_token_id")});
  for (const Json& id : list) {
    ZU_TRY_ASSIGN(const int64_t token, io::integer_of(id, keys.name() + ": eos_token_id", 0, c.vocab - 1));
    stops.insert(static_cast<int32_t>(token));
  }
  return {};
}

}  // namespace

Result<ModelConfig> parse_config(const Json& config, const Json* generation_config, const std::string& name) {
  ZU_TRY_ASSIGN(const Fields keys, Fields::of(config, name));
  ModelConfig c;
  ZU_TRY_ASSIGN(const Family* family, read_family(keys));
  c.architecture = family->model_type;
  c.qkv_bias = family->qkv_bias;
  c.qk_norm = family->qk_norm;
  ZU_TRY(refuse_unmodelled(keys));
  ZU_TRY(read_sizes(keys, *family, c));
  ZU_TRY_ASSIGN(const double eps, keys.positive("rms_norm_eps", 1.0));
  c.rms_eps = static_cast<float>(eps);
  if (!std::isnormal(c.rms_eps)) return keys.error("rms_norm_eps", fmt::format("{} is below the smallest normal float", eps));
  ZU_TRY_ASSIGN(c.tied_head, keys.boolean_or("tie_word_embeddings", false));
  ZU_TRY(read_rope(keys, c));
  ZU_TRY(read_windows(keys, c));

  std::set<int32_t> stops;
  ZU_TRY(add_stop_tokens(keys, c, stops));
  if (generation_config != nullptr) {
    ZU_TRY_ASSIGN(const Fields generation, Fields::of(*generation_config, name + " (generation_config.json)"));
    ZU_TRY(add_stop_tokens(generation, c, stops));
  }
  c.stop_tokens.assign(stops.begin(), stops.end());
  if (keys.has("bos_token_id")) {
    ZU_TRY_ASSIGN(const int64_t bos, keys.integer("bos_token_id", 0, c.vocab - 1));
    c.bos_token = static_cast<int32_t>(bos);
  }
  return c;
}

}  // namespace zeroulp::model
