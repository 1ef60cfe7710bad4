// A GGUF file written out as a BF16 Hugging Face folder that transformers opens: same weights after one rounding, same token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "model/config.h"

namespace zeroulp::model {

struct GgufImportOptions {
  std::string pre = {};                                              // see gguf_tokenizer.h
  bool force = false;                                                // replace an existing folder
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // weights; called about once per million
};

struct GgufImportReport {
  ModelConfig config;
  std::string pre;
  int64_t tensors = 0;
  uint64_t weights = 0;
  uint64_t bytes_in = 0;   // of all parts
  uint64_t bytes_out = 0;  // of the tensors
  size_t parts = 1;
};

// Memory: the maps and a few rows. The folder appears complete, or not at all.
Result<GgufImportReport> import_gguf(const std::filesystem::path& gguf, const std::filesystem::path& folder,
                                     const GgufImportOptions& options);

// The GGUF name of a tensor that Hugging Face calls `name`; empty if there is none.
std::string gguf_tensor_name(const std::string& name);

// The row of the file that holds row `row` of the Hugging Face tensor `name`. Files of the llama architecture interleave the two
// halves of each query and key head, for a rotation of neighbours; those of qwen do not.
int64_t gguf_source_row(const ModelConfig& config, const std::string& name, int64_t row);

}  // namespace zeroulp::model
