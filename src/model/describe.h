// What is in a model file or folder, without using it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/json.h"
#include "model/config.h"

namespace zeroulp::model {

struct TensorLine {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

struct Description {
  std::string kind;  // "hugging-face", "zeroulp-model", "safetensors" or "gguf"
  uint64_t files = 0;
  uint64_t bytes = 0;  // of the files with tensors
  std::optional<ModelConfig> config;
  std::vector<TensorLine> tensors;  // in the order of the file
  std::string tokenizer;            // "" if there is none; else the kind and, in GGUF, the pre-tokeniser
  uint64_t tokens = 0;
  bool has_chat_template = false;
  io::Json metadata = io::Json::object();  // of a safetensors file or GGUF: scalars as they are, arrays by type and length
  std::vector<std::string> notes;
  std::optional<Error> problem;  // why the model cannot be used, when its parts could still be read
};

// A folder, a safetensors file or a GGUF file. An error if nothing in it can be read.
Result<Description> describe(const std::filesystem::path& path);

}  // namespace zeroulp::model
