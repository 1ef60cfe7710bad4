#include "tokenizer/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace zeroulp::tokenizer {
namespace {

// The code point that ends before `end`, which is a boundary and not 0.
DecodedCodePoint last_code_point(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return decode_valid_utf8(text, at);
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  const bool word_before = begin > 0 && code_point_classes(last_code_point(text, begin).code_point) & kWord;
  const bool word_after = end < text.size() && code_point_classes(decode_valid_utf8(text, end).code_point) & kWord;
  return !word_before && !word_after;
}

size_t spaces_begin(std::string_view text, size_t end) {
  while (end > 0) {
    const auto [c, length] = last_code_point(text, end);
    if (!(code_point_classes(c) & kSpace)) break;
    end -= length;
  }
  return end;
}

size_t spaces_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const auto [c, length] = decode_valid_utf8(text, begin);
    if (!(code_point_classes(c) & kSpace)) break;
    begin += length;
  }
  return begin;
}

}  // namespace

Status AddedTokenMatcher::add(const AddedToken* token, std::string_view pattern) {
  uint32_t node = 0;
  for (char c : pattern) {
    const auto [it, is_new] = edges_.try_emplace(uint64_t{node} << 8 | static_cast<uint8_t>(c), accepts_.size());
    if (is_new) accepts_.push_back(nullptr);
    node = it->second;
  }
  if (accepts_[node] != nullptr) return bad_input(fmt::format("two added tokens have the content {}", in_quotes(token->content)));
  accepts_[node] = token;
  starts_[static_cast<uint8_t>(pattern[0])] = true;
  return {};
}

AddedTokenMatcher::Found AddedTokenMatcher::find(std::string_view text, size_t from, const SpecialRule& rule,
                                                 size_t& next_protected) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!starts_[static_cast<uint8_t>(text[at])]) continue;
    size_t limit = text.size();  // where special tokens must end
    if (rule.protected_ != nullptr) {
      const auto& spans = *rule.protected_;
      while (next_protected < spans.size() && spans[next_protected].end <= at) ++next_protected;
      if (next_protected < spans.size()) limit = std::max(at, spans[next_protected].begin);
    }
    Found longest{0, 0, nullptr};
    uint32_t node = 0;
    for (size_t end = at; end < text.size();) {
      const auto edge = edges_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[end]));
      if (edge == edges_.end()) break;
      node = edge->second;
      ++end;
      if (accepts_[node] != nullptr && (!accepts_[node]->special || end <= limit)) longest = {at, end, accepts_[node]};
    }
    if (longest.token != nullptr) return longest;
  }
  return {text.size(), text.size(), nullptr};
}

std::vector<AddedMatch> AddedTokenMatcher::split(std::string_view text, const SpecialRule& rule) const {
  std::vector<AddedMatch> parts;
  size_t done = 0, next_protected = 0;
  for (Found f = find(text, 0, rule, next_protected); f.token != nullptr; f = find(text, f.end, rule, next_protected)) {
    // A match that does not count is still passed over whole, as in `tokenizers`.
    if (f.token->special && !rule.parse) continue;
    if (f.token->single_word && !stands_alone(text, f.begin, f.end)) continue;
    size_t begin = f.begin, end = f.end;
    if (f.token->lstrip) begin = std::max(spaces_begin(text, begin), done);
    if (f.token->rstrip) end = spaces_end(text, end);
    if (done < begin) parts.push_back({{done, begin}, nullptr});
    parts.push_back({{begin, end}, f.token});
    done = end;
  }
  if (done != text.size()) parts.push_back({{done, text.size()}, nullptr});
  return parts;
}

}  // namespace zeroulp::tokenizer
