// Unicode as Hugging Face's `tokenizers` has it: classes, canonical composition, and the policy on invalid UTF-8.
//
// The tables (unicode_tables.inc) were measured from the pinned package, code point by code point. That version is part of
// what a token id means: a later one changes ids, and is adopted only together with new golden files.
//
// Invalid UTF-8. Text may come from anywhere, and the models' tokenizers are defined on Unicode text alone. So each maximal
// invalid subpart (the Unicode Standard's recommendation, and what Rust and Python do) becomes one U+FFFD before anything
// else happens, and the caller is told how many there were. Surrogates and overlong forms are invalid.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeroulp::tokenizer {

enum CodePointClass : uint8_t {
  kLetter = 1,       // \p{L}
  kNumber = 2,       // \p{N}
  kSpace = 4,        // \s
  kDigit = 8,        // what the Digits pre-tokeniser isolates
  kWord = 16,        // \w, for added tokens with single_word
  kCanonical = 32,   // canonical composition may touch it
};

// The classes of a code point, as a set of CodePointClass bits; 0 above U+10FFFF.
uint8_t code_point_classes(uint32_t code_point);

struct DecodedCodePoint {
  uint32_t code_point;
  int length;
};

// The code point at text[at]; the text must be valid UTF-8 and `at` a boundary inside it.
DecodedCodePoint decode_valid_utf8(std::string_view text, size_t at);
void append_utf8(std::string& text, uint32_t code_point);

// What stands at the front of `bytes` (which must not be empty).
struct Utf8Step {
  enum Kind { kValid, kInvalid, kIncomplete } kind;
  int length;  // of the code point; of the maximal invalid subpart; of the whole rest that could still become a code point
};
Utf8Step next_utf8(std::string_view bytes);

struct CleanText {
  std::string text;
  uint64_t replaced = 0;  // how many U+FFFD were put in
};
// Valid UTF-8 in place of any bytes, by the policy above.
CleanText replace_invalid_utf8(std::string_view bytes);

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// A half-open range of bytes.
struct ByteSpan {
  size_t begin = 0, end = 0;
  bool operator==(const ByteSpan&) const = default;
};

// Canonical composition (NFC) of valid UTF-8. `marked`: sorted, disjoint spans of `text`; they are rewritten to the bytes
// that came from them (a composed character is marked if any of its parts was).
std::string normalize_nfc(std::string_view text, std::vector<ByteSpan>* marked = nullptr);

}  // namespace zeroulp::tokenizer
