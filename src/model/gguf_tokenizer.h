// tokenizer.json and tokenizer_config.json of a GGUF file whose tokenizer is byte-level BPE.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "model/gguf_config.h"

namespace zeroulp::model {

struct GgufTokenizer {
  std::string tokenizer_json;
  nlohmann::ordered_json tokenizer_config;
  std::string pre;  // the pre-tokeniser that was used
};

// `pre` overrides tokenizer.ggml.pre when not empty: it must be given when the file says nothing or "default". `rows` is the
// size of the embedding, which no token may exceed.
Result<GgufTokenizer> tokenizer_from_gguf(const GgufKeys& keys, const std::string& pre, int64_t rows);

}  // namespace zeroulp::model
