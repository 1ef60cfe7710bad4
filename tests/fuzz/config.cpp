// parse_config on arbitrary JSON: it refuses in one line, or the sizes fit together and every frequency is a normal number.
#include "model/config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "model/tensor_names.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = zeroulp::io::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!json) return 0;
  const auto config = zeroulp::model::parse_config(*json, &*json, "fuzz");
  if (!config) {
    ZU_CHECK(!config.error().text.empty() && config.error().text.find('\n') == std::string::npos);
    return 0;
  }
  ZU_CHECK(config->heads % config->kv_heads == 0 && config->head_dim % 2 == 0);
  ZU_CHECK(config->rope_frequencies.size() == static_cast<size_t>(config->head_dim / 2));
  for (const float f : config->rope_frequencies) ZU_CHECK(std::isnormal(f));
  ZU_CHECK(config->window.size() == static_cast<size_t>(config->layers));
  if (config->layers <= 8) ZU_CHECK(!zeroulp::model::expected_tensors(*config).empty());
  return 0;
}
