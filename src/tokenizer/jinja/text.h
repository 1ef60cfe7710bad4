// Text that remembers where it came from: the template, or the messages (here: content).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/unicode.h"

namespace zeroulp::tokenizer::jinja {

struct Text {
  std::string bytes;               // valid UTF-8
  std::vector<ByteSpan> content;   // sorted, disjoint, none empty, no two touching

  Text() = default;
  explicit Text(std::string_view from_template) : bytes(from_template) {}
  static Text from_content(std::string_view bytes);

  void append(std::string_view from_template) { bytes += from_template; }
  void append(const Text& other) { append(other, 0, other.bytes.size()); }
  // The bytes [begin, end) of another text, with their origin.
  void append(const Text& other, size_t begin, size_t end);
  // `replacement` in place of [begin, end) of `other`: it is content if any byte there is.
  void append_in_place_of(const Text& other, size_t begin, size_t end, std::string_view replacement);
  bool is_content(size_t begin, size_t end) const;

 private:
  void mark(size_t begin, size_t end);
};

Text slice(const Text& text, size_t begin, size_t end);

// What Python's str.strip() strips and str.split() splits at.
bool is_python_space(uint32_t code_point);
// The number of code points.
size_t length_of(std::string_view text);
// Byte offsets of the code points, and of the end.
std::vector<size_t> code_point_offsets(std::string_view text);

}  // namespace zeroulp::tokenizer::jinja
