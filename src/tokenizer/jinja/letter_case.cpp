// Upper and lower case as Python has them; words are told apart in ASCII alone.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "tokenizer/jinja/builtins.h"

namespace zeroulp::tokenizer::jinja {
namespace {

// Every step-th code point from first to last moves by offset.
struct CaseRun {
  uint32_t first, last, step;
  int32_t offset;
};
// One code point that becomes two or three (0 ends a shorter one).
struct LongCase {
  uint32_t code_point, parts[3];
};
#include "tokenizer/jinja/case_tables.inc"

std::string mapped(uint32_t c, bool up) {
  std::string out;
  const std::span<const LongCase> longs = up ? std::span<const LongCase>(kUpperLong) : std::span<const LongCase>(kLowerLong);
  for (const LongCase& row : longs) {
    if (row.code_point != c) continue;
    for (uint32_t part : row.parts)
      if (part != 0) append_utf8(out, part);
    return out;
  }
  const std::span<const CaseRun> runs = up ? std::span<const CaseRun>(kUpperRuns) : std::span<const CaseRun>(kLowerRuns);
  for (auto it = std::partition_point(runs.begin(), runs.end(), [&](const CaseRun& r) { return r.last < c; });
       it != runs.end() && it->first <= c; ++it)
    if ((c - it->first) % it->step == 0) {
      append_utf8(out, c + static_cast<uint32_t>(it->offset));
      return out;
    }
  append_utf8(out, c);
  return out;
}

bool ascii_letter(uint32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

char ascii_case(uint32_t c, bool up) {
  const bool moves = up ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
  return static_cast<char>(moves ? c ^ 0x20 : c);
}

}  // namespace

Text change_case(const Text& text, std::string_view how) {
  Text out;
  bool start = true;
  for (size_t at = 0; at < text.bytes.size();) {
    const auto [c, length] = decode_valid_utf8(text.bytes, at);
    const bool up = how == "upper" || (how != "lower" && start);
    if (c < 0x80) {
      const char changed = ascii_case(c, up);
      out.append_in_place_of(text, at, at + 1, {&changed, 1});
    } else {
      // Word starts have a case of their own, and a capital sigma looks at its neighbours.
      if (how == "title" || how == "title_filter" || (how == "capitalize" && start) || (!up && c == 0x3A3))
        throw TemplateError(fmt::format("{} of this text beyond ASCII is not supported", how == "title_filter" ? "title" : how));
      out.append_in_place_of(text, at, at + length, mapped(c, up));
    }
    at += length;
    // The method title starts a word after anything that is no letter, the filter (title_filter) after these alone.
    if (how == "title") start = !ascii_letter(c);
    if (how == "title_filter") start = c < 0x80 && std::string_view("-({[< \t\n\r\v\f\x1c\x1d\x1e\x1f").find(static_cast<char>(c)) != std::string_view::npos;
    if (how == "capitalize") start = false;
  }
  return out;
}

}  // namespace zeroulp::tokenizer::jinja
