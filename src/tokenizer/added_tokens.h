// Added tokens: texts that are one token wherever they stand, found before normalising and pre-tokenising.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tokenizer/unicode.h"

namespace zeroulp::tokenizer {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool single_word = false;  // not beside a word character
  bool lstrip = false;       // takes the white space on its left
  bool rstrip = false;       // and on its right
  bool normalized = true;    // looked for in normalised text
  bool special = false;      // control text: decoding may leave it out, encoding may be told to see no token in it
};

struct AddedMatch {
  ByteSpan span;                      // of the text, white space taken included
  const AddedToken* token = nullptr;  // null: plain text
};

// Which special tokens a text may yield. Tokens that are not special match in any case.
struct SpecialRule {
  bool parse = true;                                  // false: none
  const std::vector<ByteSpan>* protected_ = nullptr;  // sorted, disjoint: none that overlaps one of these
};

class AddedTokenMatcher {
 public:
  static constexpr size_t kMaxContent = 1024;

  // `pattern` is what to look for: the content, or its normalised form. Refuses one that stands twice.
  Status add(const AddedToken* token, std::string_view pattern);

  // Cuts text into matches and what lies between: at each place the longest token, from left to right.
  std::vector<AddedMatch> split(std::string_view text, const SpecialRule& rule) const;

 private:
  struct Found {
    size_t begin, end;
    const AddedToken* token;
  };
  // The next match that starts at or after `from`; token null: none.
  Found find(std::string_view text, size_t from, const SpecialRule& rule, size_t& next_protected) const;

  std::unordered_map<uint64_t, uint32_t> edges_;  // node << 8 | byte -> node
  std::vector<const AddedToken*> accepts_{nullptr};
  std::array<bool, 256> starts_{};
};

}  // namespace zeroulp::tokenizer
