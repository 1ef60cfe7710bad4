// tokenizer.json as far as zeroulp models it. Whatever would change ids and is not modelled is refused with the place named.
//
// Not looked at, because `transformers` overrides them with each call: truncation and padding. Offsets are not computed, so
// trim_offsets has no effect.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pretokenize.h"

namespace zeroulp::tokenizer {

struct TokenizerSpec {
  BpeModel model;
  std::vector<AddedToken> added;  // content not empty, each once
  bool nfc = false;
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  std::vector<uint32_t> prefix, suffix;  // what the post-processor puts around a text
};

inline constexpr uint32_t kMaxTokenId = (1u << 22) - 1;

// `name` opens error lines.
Result<TokenizerSpec> parse_tokenizer_json(std::string_view text, std::string_view name);

}  // namespace zeroulp::tokenizer
