// The Hugging Face configuration of a model in a GGUF file.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/gguf.h"

namespace zeroulp::model {

// Metadata of a GGUF file by key, with errors that name file and key. "{arch}." stands for the architecture's prefix.
class GgufKeys {
 public:
  static Result<GgufKeys> of(const io::GgufModel& model);

  const std::string& architecture() const { return architecture_; }  // "llama", "qwen2" or "qwen3"
  const io::GgufModel& model() const { return *model_; }
  bool has(const std::string& key) const { return model_->value(full(key)) != nullptr; }
  Error error(const std::string& key, std::string_view text) const;

  // A non-negative integer, or an array of one and the same (some writers give one per layer).
  Result<int64_t> integer(const std::string& key) const;
  Result<std::optional<int64_t>> optional_integer(const std::string& key) const;
  Result<double> number(const std::string& key) const;  // the shortest decimal of an F32
  Result<double> number_or(const std::string& key, double absent) const;
  Result<bool> boolean_or(const std::string& key, bool absent) const;
  Result<std::string> text(const std::string& key) const;
  Result<std::optional<std::string>> optional_text(const std::string& key) const;
  Result<const std::vector<std::string_view>*> texts(const std::string& key) const;

 private:
  std::string full(const std::string& key) const;
  const io::GgufModel* model_ = nullptr;
  std::string architecture_;
};

struct GgufConfig {
  nlohmann::ordered_json config;             // config.json
  nlohmann::ordered_json generation_config;  // generation_config.json
};

// Refuses keys that would change the computation and have no place in the configuration.
Result<GgufConfig> config_from_gguf(const GgufKeys& keys);

}  // namespace zeroulp::model
