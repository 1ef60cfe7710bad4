#include "model/compressed_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "io/fields.h"

namespace zeroulp::model {
namespace {

using io::Fields;
using io::Json;

Status must_be(const Fields& keys, const char* key, const Json& wanted) {
  if (keys.has(key) && keys.at(key) == wanted) return {};
  return keys.error(key, fmt::format("{} is not supported; {} is", keys.has(key) ? io::shown(keys.at(key)) : "null", io::shown(wanted)));
}

// Absent, null or empty.
Status must_be_empty(const Fields& keys, const char* key) {
  if (!keys.has(key) || keys.at(key).empty()) return {};
  return keys.error(key, fmt::format("{} is not supported; it must be null or absent", io::shown(keys.at(key))));
}

Status read_arguments(const Fields& keys, const char* strategy, bool dynamic) {
  ZU_TRY(must_be(keys, "num_bits", 8));
  ZU_TRY(must_be(keys, "type", "int"));
  ZU_TRY(must_be(keys, "symmetric", true));
  ZU_TRY(must_be(keys, "strategy", strategy));
  ZU_TRY(must_be_empty(keys, "group_size"));
  ZU_TRY(must_be_empty(keys, "block_structure"));
  ZU_TRY_ASSIGN(const bool given, keys.boolean_or("dynamic", false));
  if (given == dynamic) return {};
  return keys.error("dynamic", dynamic ? "must be true: static activation scales are not supported" : "must be false");
}

Status read_group(const Fields& group) {
  ZU_TRY(must_be(group, "targets", Json::array({"Linear"})));
  if (group.has("format") && group.at("format") != "int-quantized") ZU_TRY(must_be(group, "format", "int-quantized"));
  ZU_TRY_ASSIGN(const Fields weights, group.object("weights"));
  ZU_TRY(read_arguments(weights, "channel", false));
  ZU_TRY_ASSIGN(const Fields inputs, group.object("input_activations"));
  ZU_TRY(read_arguments(inputs, "token", true));
  return must_be_empty(group, "output_activations");
}

}  // namespace

bool CompressedTensors::quantises(std::string_view module) const {
  return (module == "lm_head" || module.ends_with("_proj")) && std::find(ignored.begin(), ignored.end(), module) == ignored.end();
}

Result<std::optional<CompressedTensors>> parse_compressed_tensors(const Json& config, const std::string& name) {
  if (!config.is_object() || !config.contains("quantization_config") || config["quantization_config"].is_null()) return std::optional<CompressedTensors>();
  ZU_TRY_ASSIGN(const Fields keys, Fields::of(config["quantization_config"], name + ": quantization_config"));
  ZU_TRY_ASSIGN(const std::string method, keys.string("quant_method"));
  if (method != "compressed-tensors")
    return keys.error("quant_method", fmt::format("{} is not supported; compressed-tensors is. Give the BF16, F16 or F32 model", in_quotes(method)));
  ZU_TRY(must_be(keys, "format", "int-quantized"));
  if (keys.has("quantization_status")) ZU_TRY(must_be(keys, "quantization_status", "compressed"));
  ZU_TRY(must_be_empty(keys, "kv_cache_scheme"));
  ZU_TRY(must_be_empty(keys, "transform_config"));
  if (keys.has("sparsity_config") && !keys.at("sparsity_config").empty()) {
    ZU_TRY_ASSIGN(const Fields sparsity, keys.object("sparsity_config"));
    ZU_TRY(must_be(sparsity, "format", "dense"));
  }
  ZU_TRY_ASSIGN(const Fields groups, keys.object("config_groups"));
  if (groups.json().size() != 1) return keys.error("config_groups", fmt::format("holds {} groups; one is supported", groups.json().size()));
  const std::string group_name = groups.json().begin().key();
  ZU_TRY_ASSIGN(const Fields group, Fields::of(groups.json().begin().value(), groups.name() + ": " + in_quotes(group_name)));
  ZU_TRY(read_group(group));
  CompressedTensors out;
  if (keys.has("ignore")) {
    ZU_TRY_ASSIGN(out.ignored, keys.strings("ignore"));
    for (const std::string& module : out.ignored)
      if (module.starts_with("re:")) return keys.error("ignore", fmt::format("{} is a pattern; only names of modules are supported", in_quotes(module)));
  }
  return std::optional<CompressedTensors>(std::move(out));
}

Json compressed_tensors_config(const std::vector<std::string>& ignored) {
  const auto arguments = [](const char* strategy, bool dynamic) {
    return Json{{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", strategy}, {"dynamic", dynamic}, {"group_size", nullptr}, {"block_structure", nullptr}};
  };
  return {{"quant_method", "compressed-tensors"},
          {"format", "int-quantized"},
          {"quantization_status", "compressed"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}}, {"weights", arguments("channel", false)}, {"input_activations", arguments("token", true)}, {"output_activations", nullptr}, {"format", "int-quantized"}}}}},
          {"ignore", ignored},
          {"kv_cache_scheme", nullptr}};
}

}  // namespace zeroulp::model
