// Text as a model's tokens, for the verbs that need some.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace zeroulp::cli {

struct ModelText {
  std::vector<int32_t> tokens;
  std::string name, sha256;
};

// The tokens of a text file, nothing added around them, or of a short built-in text when `path` is empty. `verb` opens warnings.
Result<ModelText> read_model_text(const std::string& verb, const std::string& model_folder, const std::string& path);

// One line on standard error for each way in which the tokens are not quite the text that was read from `where`.
void say_what_was_lost(const std::string& verb, const std::string& where, const tokenizer::Encoding& encoding);

}  // namespace zeroulp::cli
