// The configuration in zeroulp.json.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "io/fields.h"
#include "model/quantized_model.h"
#include "num/bits.h"

namespace zeroulp::model {
namespace {

// Floats are stored by their bits: a decimal spelling is for people, in a field of its own.
io::Json float_to_json(float value) { return {{"bits", fmt::format("0x{:08x}", num::bits_of(value))}, {"value", value}}; }

Result<float> float_from_json(const io::Fields& fields, const char* key) {
  ZU_TRY_ASSIGN(const io::Fields value, fields.object(key));
  ZU_TRY_ASSIGN(const std::string text, value.string("bits"));
  uint32_t bits = 0;
  const char* end = text.data() + text.size();
  if (text.size() != 10 || !text.starts_with("0x") || std::from_chars(text.data() + 2, end, bits, 16).ptr != end)
    return value.error("bits", fmt::format("{} is not 0x and eight hexadecimal digits", in_quotes(text)));
  return num::float_of(bits);
}

constexpr int64_t kMaxWidth = 131072;  // of what a linear sums over in int32
constexpr int64_t kMaxPositions = int64_t{1} << 28;

struct Size {
  const char* key;
  int64_t ModelConfig::*field;
  int64_t max;
};
constexpr Size kSizes[] = {{"hidden", &ModelConfig::hidden, kMaxWidth},
                           {"intermediate", &ModelConfig::intermediate, kMaxWidth},
                           {"layers", &ModelConfig::layers, 4096},
                           {"heads", &ModelConfig::heads, 4096},
                           {"kv_heads", &ModelConfig::kv_heads, 4096},
                           {"head_dim", &ModelConfig::head_dim, 1032},
                           {"vocab", &ModelConfig::vocab, (int64_t{1} << 31) - 1},
                           {"max_positions", &ModelConfig::max_positions, kMaxPositions}};
constexpr std::string_view kArchitectures[] = {"llama", "qwen2", "qwen3"};

Status read_sizes(const io::Fields& fields, ModelConfig& c) {
  for (const Size& size : kSizes) {
    ZU_TRY_ASSIGN(c.*size.field, fields.integer(size.key, 1, size.max));
  }
  if (c.heads % c.kv_heads != 0) return fields.error("kv_heads", fmt::format("{} does not divide the {} heads", c.kv_heads, c.heads));
  if (c.head_dim % 2 != 0) return fields.error("head_dim", fmt::format("{} is odd", c.head_dim));
  if (c.heads * c.head_dim > kMaxWidth)
    return fields.error("heads", fmt::format("{} heads of {} are more than {}", c.heads, c.head_dim, kMaxWidth));
  return {};
}

Status read_windows(const io::Fields& fields, ModelConfig& c) {
  ZU_TRY_ASSIGN(const io::Json* windows, fields.array("window"));
  if (static_cast<int64_t>(windows->size()) != c.layers)
    return fields.error("window", fmt::format("has {} entries for {} layers", windows->size(), c.layers));
  for (const io::Json& w : *windows) {
    std::optional<int64_t> window;
    if (!w.is_null()) {
      ZU_TRY_ASSIGN(window, io::integer_of(w, fields.name() + ": window", 1, int64_t{1} << 30));
    }
    c.window.push_back(window);
  }
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

Result<ModelConfig> config_from_json(const io::Json& json, const std::string& name) {
  ZU_TRY_ASSIGN(const io::Fields fields, io::Fields::of(json, name));
  ModelConfig c;
  ZU_TRY_ASSIGN(c.architecture, fields.string("architecture"));
  if (std::find(std::begin(kArchitectures), std::end(kArchitectures), c.architecture) == std::end(kArchitectures))
    return fields.error("architecture", fmt::format("{} is none of {}", in_quotes(c.architecture), fmt::join(kArchitectures, ", ")));
  ZU_TRY(read_sizes(fields, c));
  ZU_TRY_ASSIGN(c.rms_eps, float_from_json(fields, "rms_eps"));
  if (!(c.rms_eps >= 0 && num::is_finite(c.rms_eps))) return fields.error("rms_eps", fmt::format("{} is not a finite number from 0", c.rms_eps));
  ZU_TRY_ASSIGN(c.qkv_bias, fields.boolean("qkv_bias"));
  ZU_TRY_ASSIGN(c.qk_norm, fields.boolean("qk_norm"));
  ZU_TRY_ASSIGN(c.tied_head, fields.boolean("tied_head"));
  ZU_TRY_ASSIGN(c.rope_attention_factor, float_from_json(fields, "rope_attention_factor"));
  if (!(c.rope_attention_factor >= 0x1p-20f && c.rope_attention_factor <= 0x1p20f))
    return fields.error("rope_attention_factor", fmt::format("{} is outside [2^-20, 2^20]", c.rope_attention_factor));
  ZU_TRY(read_windows(fields, c));
  ZU_TRY_ASSIGN(const std::vector<int64_t> stops, fields.integers("stop_tokens", 0, c.vocab - 1));
  c.stop_tokens.assign(stops.begin(), stops.end());
  if (fields.has("bos_token")) {
    ZU_TRY_ASSIGN(const int64_t bos, fields.integer("bos_token", 0, c.vocab - 1));
    c.bos_token = static_cast<int32_t>(bos);
  }
  return c;
}

}  // namespace zeroulp::model
