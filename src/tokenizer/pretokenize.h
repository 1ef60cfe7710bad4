// The pre-tokenisers of the known model families, as hand-written scanners: their regular expressions need lookahead and
// Unicode classes, and exactly four are in use. Any other is refused when tokenizer.json is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace zeroulp::tokenizer {

enum class PreTokenizer : uint8_t {
  kGpt2,     // ByteLevel's own expression
  kLlama3,   // case-insensitive contractions, digits in threes
  kQwen2,    // the same, digits one by one
  kSmolLm2,  // every digit alone first, then kGpt2 on each part
};

// The family whose Split expression this is, letter for letter.
std::optional<PreTokenizer> pre_tokenizer_of_pattern(std::string_view pattern);
std::string_view name_of(PreTokenizer kind);

// Cuts valid UTF-8 into pieces; together they are the whole text. `pieces` is cleared first.
void pre_tokenize(PreTokenizer kind, std::string_view text, std::vector<std::string_view>& pieces);

}  // namespace zeroulp::tokenizer
