// A template cut into tokens, with the white-space rules of trim_blocks and lstrip_blocks already applied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeroulp::tokenizer::jinja {

struct Token {
  enum Kind : uint8_t {
    kData,        // text outside tags
    kPrintBegin,  // {{
    kPrintEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,  // value unescaped
    kInteger,
    kReal,
    kOperator,
    kEnd
  };
  Kind kind;
  std::string text;
  int line;
};

// Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace zeroulp::tokenizer::jinja
