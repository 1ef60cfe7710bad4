#include "tokenizer/unicode_tables.h"

namespace zeroulp::tokenizer {
namespace {
#include "tokenizer/unicode_tables.inc"
}  // namespace

const UnicodeTables& unicode_tables() {
  static constexpr UnicodeTables tables{kLetters, kNumbers, kSpaces, kDigits, kWords, kCombining, kDecomposed, kComposed};
  return tables;
}

}  // namespace zeroulp::tokenizer
