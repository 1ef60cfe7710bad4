#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace zeroulp {

size_t utf8_sequence_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const uint8_t second = byte(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second > 0x9f;
  const bool beyond = lead == 0xf4 && second > 0x8f;
  return overlong || surrogate || beyond ? 0 : length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

namespace {

// Whether a terminal would take the well-formed sequence at the front of `text` for more than a character of a line: C0, DEL, C1, U+2028, U+2029,
// and what turns the direction of writing.
bool steers(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(sequence[i]); };
  if (sequence.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (sequence.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (sequence.size() != 3 || byte(0) != 0xe2) return false;
  return (byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) || (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
}

// Takes one character (or one malformed byte) off the front of `rest` and adds it to `out`, escaped where it steers.
void take_escaped(std::string_view& rest, std::string& out) {
  const size_t length = utf8_sequence_length(rest), taken = std::max<size_t>(length, 1);
  const std::string_view sequence = rest.substr(0, taken);
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(sequence[i]); };
  if (length == 0 || (length == 1 && steers(sequence)))
    out += fmt::format("\\x{:02x}", byte(0));
  else if (steers(sequence))
    out += fmt::format("\\u{:04x}", length == 2 ? byte(1) : 0x2000 + ((byte(1) & 0x3f) << 6) + (byte(2) & 0x3f));
  else
    out += sequence;
  rest.remove_prefix(taken);
}

}  // namespace

std::string on_one_line(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) take_escaped(text, out);
  return out;
}

std::string in_quotes(std::string_view text, size_t limit) {
  std::string out = "\"";
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t length = std::max<size_t>(utf8_sequence_length(rest), 1);
    if (text.size() - rest.size() + length > limit) return out + fmt::format("...\" ({} bytes)", text.size());
    if (rest[0] == '"' || rest[0] == '\\') out += '\\';
    take_escaped(rest, out);
  }
  return out + '"';
}

}  // namespace zeroulp
