// The configuration in zeroulp.json.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/quantized_model.h"
#include "num/bits.h"

namespace zeroulp::model {
namespace {

// Floats are stored by their bits: a decimal spelling is for people, in a field of its own.
io::Json float_to_json(float value) { return {{"bits", fmt::format("0x{:08x}", num::bits_of(value))}, {"value", value}}; }

Result<float> float_from_json(const io::Json& json, const std::string& name, std::string_view key) {
  const std::string text = json.at("bits").get<std::string>();
  char* end = nullptr;
  const unsigned long bits = std::strtoul(text.c_str(), &end, 16);
  if (text.size() != 10 || *end != '\0') return bad_input(fmt::format("{}: {}.bits is not eight hexadecimal digits after 0x", name, key));
  return num::float_of(static_cast<uint32_t>(bits));
}

constexpr int64_t kLimit = int64_t{1} << 31;

Status check_ranges(const ModelConfig& c, const std::string& name) {
  const auto in = [](int64_t v, int64_t low, int64_t high) { return v >= low && v <= high; };
  if (!in(c.hidden, 1, 131072) || !in(c.intermediate, 1, 131072) || !in(c.layers, 1, 4096) || !in(c.heads, 1, 4096) ||
      !in(c.kv_heads, 1, c.heads) || c.heads % c.kv_heads != 0 || !in(c.head_dim, 2, 1032) || c.head_dim % 2 != 0 ||
      !in(c.heads * c.head_dim, 1, 131072) || !in(c.vocab, 1, kLimit - 1) || !in(c.max_positions, 1, int64_t{1} << 28) || !(c.rms_eps >= 0))
    return bad_input(fmt::format("{}: a size of the configuration is outside its limits", name));
  for (const int32_t token : c.stop_tokens)
    if (!in(token, 0, c.vocab - 1)) return bad_input(fmt::format("{}: stop token {} is outside the vocabulary", name, token));
  return {};
}

}  // namespace

io::Json config_to_json(const ModelConfig& c) {
  io::Json windows = io::Json::array();
  for (const auto& w : c.window) windows.push_back(w ? io::Json(*w) : io::Json(nullptr));
  return {{"architecture", c.architecture},
          {"hidden", c.hidden},
          {"intermediate", c.intermediate},
          {"layers", c.layers},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"vocab", c.vocab},
          {"max_positions", c.max_positions},
          {"rms_eps", float_to_json(c.rms_eps)},
          {"qkv_bias", c.qkv_bias},
          {"qk_norm", c.qk_norm},
          {"tied_head", c.tied_head},
          {"rope_attention_factor", float_to_json(c.rope_attention_factor)},
          {"window", windows},
          {"stop_tokens", c.stop_tokens},
          {"bos_token", c.bos_token ? io::Json(*c.bos_token) : io::Json(nullptr)}};
}

Result<ModelConfig> config_from_json(const io::Json& j, const std::string& name) {
  ModelConfig c;
  try {
    c.architecture = j.at("architecture").get<std::string>();
    for (const auto& [key, field] : {std::pair{"hidden", &c.hidden}, {"intermediate", &c.intermediate}, {"layers", &c.layers},
                                     {"heads", &c.heads}, {"kv_heads", &c.kv_heads}, {"head_dim", &c.head_dim}, {"vocab", &c.vocab},
                                     {"max_positions", &c.max_positions}})
      *field = j.at(key).get<int64_t>();
    ZU_TRY_ASSIGN(c.rms_eps, float_from_json(j.at("rms_eps"), name, "rms_eps"));
    c.qkv_bias = j.at("qkv_bias").get<bool>();
    c.qk_norm = j.at("qk_norm").get<bool>();
    c.tied_head = j.at("tied_head").get<bool>();
    ZU_TRY_ASSIGN(c.rope_attention_factor, float_from_json(j.at("rope_attention_factor"), name, "rope_attention_factor"));
    for (const io::Json& w : j.at("window")) {
      if (!w.is_null() && !(w.is_number_integer() && w.get<int64_t>() > 0)) return bad_input(fmt::format("{}: a window is not a positive number", name));
      c.window.push_back(w.is_null() ? std::nullopt : std::optional(w.get<int64_t>()));
    }
    c.stop_tokens = j.at("stop_tokens").get<std::vector<int32_t>>();
    if (!j.at("bos_token").is_null()) c.bos_token = j.at("bos_token").get<int32_t>();
  } catch (const io::Json::exception& e) {
    return bad_input(fmt::format("{}: config: {}", name, e.what()));
  }
  ZU_TRY(check_ranges(c, name));
  if (static_cast<int64_t>(c.window.size()) != c.layers) return bad_input(fmt::format("{}: window has {} entries for {} layers", name, c.window.size(), c.layers));
  if (!(c.rope_attention_factor >= 0x1p-20f && c.rope_attention_factor <= 0x1p20f))
    return bad_input(fmt::format("{}: rope_attention_factor is outside [2^-20, 2^20]", name));
  return c;
}

}  // namespace zeroulp::model
