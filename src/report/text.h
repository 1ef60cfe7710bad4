// Numbers and text for people. Locale-free: the same value gives the same characters everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zeroulp::report {

std::string count_text(int64_t value);                // 491,400,064
std::string bytes_text(uint64_t bytes);               // 468.6 MiB
std::string duration_text(double seconds);            // 3.1 s, 4 min 05 s, 1 h 02 min
std::string significant(double value, int digits);    // 0.00345, 12.3, 1.2e-09; "nan" and "inf" as such
std::string percent_text(double part, double whole);  // 12.5 %, "-" of nothing

// Columns that UTF-8 text takes on a terminal: East Asian wide characters and emoji two, combining marks none. A byte that is
// not UTF-8 counts one.
int display_width(std::string_view utf8);

// The text cut to `width` columns, an ellipsis standing for what was cut. Never cuts inside a character.
std::string shorten(std::string_view utf8, int width);

// For element content and for attribute values in double quotes. Bytes that are not UTF-8 and control characters that HTML
// forbids become U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace zeroulp::report
