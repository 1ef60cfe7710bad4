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

std::string in_quotes(std::string_view text, size_t limit) {
  std::string out = "\"";
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t length = std::max<size_t>(utf8_sequence_length(rest), 1);
    if (text.size() - rest.size() + length > limit) return out + fmt::format("...\" ({} bytes)", text.size());
    const auto c = static_cast<uint8_t>(rest[0]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += rest[0];
    } else if (c < 0x20 || c == 0x7f || (length == 1 && c >= 0x80)) {
      out += fmt::format("\\x{:02x}", c);
    } else if (length == 2 && c == 0xc2 && static_cast<uint8_t>(rest[1]) < 0xa0) {  // C1 controls steer terminals too
      out += fmt::format("\\u{:04x}", static_cast<uint8_t>(rest[1]));
    } else {
      out += rest.substr(0, length);
    }
    rest.remove_prefix(length);
  }
  return out + '"';
}

}  // namespace zeroulp
