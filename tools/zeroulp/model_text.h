// Text as a model's tokens, for the verbs that need some.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace zeroulp::cli {

struct ModelText {
  std::vector<int32_t> tokens;
  std::string name, sha256;
};

// The tokens of a text file, nothing added around them, or of a short built-in text when `path` is empty.
Result<ModelText> read_model_text(const std::string& model_folder, const std::string& path);

}  // namespace zeroulp::cli
