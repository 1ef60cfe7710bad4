#include "tokenizer/jinja/text.h"

#include <algorithm>

namespace zeroulp::tokenizer::jinja {

Text Text::from_content(std::string_view bytes) {
  Text text(bytes);
  text.mark(0, bytes.size());
  return text;
}

void Text::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!content.empty() && content.back().end == begin) {
    content.back().end = end;
  } else {
    content.push_back({begin, end});
  }
}

void Text::append(const Text& other, size_t begin, size_t end) {
  const size_t shift = bytes.size();
  bytes.append(other.bytes, begin, end - begin);
  auto it = std::upper_bound(other.content.begin(), other.content.end(), begin,
                             [](size_t at, const ByteSpan& s) { return at < s.end; });
  for (; it != other.content.end() && it->begin < end; ++it)
    mark(std::max(it->begin, begin) - begin + shift, std::min(it->end, end) - begin + shift);
}

bool Text::is_content(size_t begin, size_t end) const {
  const auto it =
      std::upper_bound(content.begin(), content.end(), begin, [](size_t at, const ByteSpan& s) { return at < s.end; });
  return it != content.end() && it->begin < end;
}

void Text::append_in_place_of(const Text& other, size_t begin, size_t end, std::string_view replacement) {
  const size_t at = bytes.size();
  bytes += replacement;
  if (other.is_content(begin, end)) mark(at, bytes.size());
}

Text slice(const Text& text, size_t begin, size_t end) {
  Text out;
  out.append(text, begin, end);
  return out;
}

bool is_python_space(uint32_t c) { return (code_point_classes(c) & kSpace) != 0 || (c >= 0x1C && c <= 0x1F); }

size_t length_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

std::vector<size_t> code_point_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); ++at)
    if ((static_cast<uint8_t>(text[at]) & 0xC0) != 0x80) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace zeroulp::tokenizer::jinja
