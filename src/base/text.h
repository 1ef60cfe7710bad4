// Text of unknown origin inside messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zeroulp {

// `text` between double quotes, fit for one line: control characters, quotes, backslashes and malformed UTF-8 are escaped,
// and what is longer than `limit` bytes is cut with its length given.
std::string in_quotes(std::string_view text, size_t limit = 80);

// The same without the quotes, of any length: what goes to a terminal or into a row of a table, whatever names are in it. Control characters,
// line separators and malformed UTF-8 are escaped (a line break as \x0a), all else is as it was.
std::string on_one_line(std::string_view text);

// The length (1 to 4) of the well-formed UTF-8 sequence at the front of `text`, or 0.
size_t utf8_sequence_length(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace zeroulp
