#include "tokenizer/unicode.h"

#include <array>
#include <memory>

#include "base/check.h"
#include "tokenizer/unicode_tables.h"

namespace zeroulp::tokenizer {
namespace {

// One byte of classes per code point.
class ClassTable {
 public:
  ClassTable() : flat_(std::make_unique<std::array<uint8_t, kEnd>>()) {
    flat_->fill(0);
    const UnicodeTables& t = unicode_tables();
    mark(t.letters, kLetter);
    mark(t.numbers, kNumber);
    mark(t.spaces, kSpace);
    mark(t.digits, kDigit);
    mark(t.words, kWord);
    for (const Decomposition& d : t.decomposed) mark(d.code_point, d.code_point, kCanonical);
    for (const Composition& c : t.composed) (*flat_)[c.composed] &= static_cast<uint8_t>(~kCanonical);  // they stay themselves
    for (const CombiningRange& r : t.combining) mark(r.first, r.last, kCanonical);
    for (const Composition& c : t.composed) mark(c.second, c.second, kCanonical);
    mark(0x1161, 0x1175, kCanonical);  // Hangul vowels and finals compose with what stands before them
    mark(0x11A8, 0x11C2, kCanonical);
  }
  uint8_t operator[](uint32_t c) const { return c < kEnd ? (*flat_)[c] : 0; }

 private:
  static constexpr uint32_t kEnd = 0x110000;
  void mark(uint32_t first, uint32_t last, uint8_t bit) {
    for (uint32_t c = first; c <= last; ++c) (*flat_)[c] |= bit;
  }
  void mark(std::span<const CodePointRange> ranges, uint8_t bit) {
    for (const CodePointRange& r : ranges) mark(r.first, r.last, bit);
  }
  std::unique_ptr<std::array<uint8_t, kEnd>> flat_;
};

bool continuation(std::string_view s, size_t i) { return i < s.size() && (static_cast<uint8_t>(s[i]) & 0xC0) == 0x80; }

}  // namespace

uint8_t code_point_classes(uint32_t code_point) {
  static const ClassTable table;
  return table[code_point];
}

DecodedCodePoint decode_valid_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[at + i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  ZU_CHECK(at + length <= text.size());
  uint32_t c = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) c = c << 6 | (byte(i) & 0x3F);
  return {c, length};
}

void append_utf8(std::string& text, uint32_t c) {
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

Utf8Step next_utf8(std::string_view s) {
  const auto lead = static_cast<uint8_t>(s[0]);
  if (lead < 0x80) return {Utf8Step::kValid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Step::kInvalid, 1};
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (s.size() == 1) return {Utf8Step::kIncomplete, 1};
  // The second byte of some leads has a narrower range: no overlong forms, no surrogates, nothing above U+10FFFF.
  const auto second = static_cast<uint8_t>(s[1]);
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high) return {Utf8Step::kInvalid, 1};
  for (int i = 2; i < length; ++i) {
    if (static_cast<size_t>(i) == s.size()) return {Utf8Step::kIncomplete, i};
    if (!continuation(s, i)) return {Utf8Step::kInvalid, i};
  }
  return {Utf8Step::kValid, length};
}

CleanText replace_invalid_utf8(std::string_view bytes) {
  CleanText clean;
  clean.text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Step step = next_utf8(bytes);
    if (step.kind == Utf8Step::kValid) {
      clean.text.append(bytes.substr(0, step.length));
    } else {
      clean.text.append(kReplacement);
      ++clean.replaced;
    }
    bytes.remove_prefix(step.length);
  }
  return clean;
}

}  // namespace zeroulp::tokenizer
