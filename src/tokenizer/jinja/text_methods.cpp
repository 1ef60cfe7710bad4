// Methods of texts, as Python's str has them.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "tokenizer/jinja/builtins.h"

namespace zeroulp::tokenizer::jinja {

int64_t integer_argument(const Value& value, std::string_view what) {
  int64_t out = 0;
  if (!value.as_integer(out)) throw TemplateError(fmt::format("{} must be an integer, not a {}", what, value.type_name()));
  return out;
}

const Text& text_argument(const Value& value, std::string_view what) {
  if (value.text() == nullptr) throw TemplateError(fmt::format("{} must be a text, not a {}", what, value.type_name()));
  return *value.text();
}

namespace {

size_t previous(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

bool optional_text(const Value* value, std::string_view what) {
  if (value == nullptr || value->none()) return false;
  text_argument(*value, what);
  return true;
}

std::vector<Value> split_at_spaces(const Text& text, int64_t most, Budget& budget) {
  std::vector<Value> parts;
  const std::string& s = text.bytes;
  for (size_t at = 0;;) {
    while (at < s.size() && is_python_space(decode_valid_utf8(s, at).code_point)) at += decode_valid_utf8(s, at).length;
    if (at >= s.size()) break;
    size_t end = at;
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(strip_text(slice(text, at, s.size()), nullptr, false, true, budget));
      break;
    }
    while (end < s.size() && !is_python_space(decode_valid_utf8(s, end).code_point)) end += decode_valid_utf8(s, end).length;
    parts.emplace_back(slice(text, at, end));
    at = end;
  }
  return parts;
}

Value split(const Text& text, const Arguments& a, bool from_right, Budget& budget) {
  a.expect("split", 0, 2, {"sep", "maxsplit"});
  const Value* separator = a.get(0, "sep");
  const Value* limit = a.get(1, "maxsplit");
  const int64_t most = limit == nullptr ? -1 : integer_argument(*limit, "maxsplit");
  budget.grow(text.bytes.size() * 2);
  if (!optional_text(separator, "the separator of split")) {
    if (from_right && most >= 0) throw TemplateError("rsplit at white space with a limit is not supported");
    std::vector<Value> parts = split_at_spaces(text, most, budget);
    budget.grow(parts.size() * 128);
    return Value::list(std::move(parts));
  }
  const std::string& sep = separator->text()->bytes;
  if (sep.empty()) throw TemplateError("split needs a separator that is not empty");
  std::vector<size_t> cuts;
  const auto room = [&] { return most < 0 || static_cast<int64_t>(cuts.size()) < most; };
  if (from_right) {
    for (size_t end = text.bytes.size(); room() && end >= sep.size();) {
      const size_t at = text.bytes.rfind(sep, end - sep.size());
      if (at == std::string::npos) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  } else {
    for (size_t at = 0; room() && (at = text.bytes.find(sep, at)) != std::string::npos; at += sep.size()) cuts.push_back(at);
  }
  budget.grow(cuts.size() * 128);
  std::vector<Value> parts;
  size_t begin = 0;
  for (size_t cut : cuts) {
    parts.emplace_back(slice(text, begin, cut));
    begin = cut + sep.size();
  }
  parts.emplace_back(slice(text, begin, text.bytes.size()));
  return Value::list(std::move(parts));
}

Value starts_or_ends(const Text& text, const Arguments& a, bool start) {
  a.expect(start ? "startswith" : "endswith", 1, 1);
  const auto one = [&](const Value& v) {
    const std::string& part = text_argument(v, "the argument of startswith and endswith").bytes;
    return start ? text.bytes.starts_with(part) : text.bytes.ends_with(part);
  };
  const Value& argument = a.positional.at(0);
  if (const Sequence* s = argument.sequence(); s != nullptr && s->tuple)
    return Value(std::any_of(s->items.begin(), s->items.end(), one));
  return Value(one(argument));
}

Value find_or_count(std::string_view name, const Text& text, const Arguments& a, Budget& budget) {
  a.expect(name, 1, 1);
  const std::string& part = text_argument(a.positional.at(0), "the argument of find, index and count").bytes;
  budget.step(text.bytes.size() / 64);
  if (name == "count") {
    if (part.empty()) return Value(static_cast<int64_t>(length_of(text.bytes) + 1));
    int64_t count = 0;
    for (size_t at = 0; (at = text.bytes.find(part, at)) != std::string::npos; at += part.size()) ++count;
    return Value(count);
  }
  const size_t at = name == "rfind" || name == "rindex" ? text.bytes.rfind(part) : text.bytes.find(part);
  if (at != std::string::npos) return Value(static_cast<int64_t>(length_of(std::string_view(text.bytes).substr(0, at))));
  if (name == "index" || name == "rindex") throw TemplateError("index: the text is not found");
  return Value(int64_t{-1});
}

Value remove_affix(const Text& text, const Arguments& a, bool prefix) {
  a.expect(prefix ? "removeprefix" : "removesuffix", 1, 1);
  const std::string& part = text_argument(a.positional.at(0), "the affix").bytes;
  if (prefix && text.bytes.starts_with(part)) return Value(slice(text, part.size(), text.bytes.size()));
  if (!prefix && !part.empty() && text.bytes.ends_with(part)) return Value(slice(text, 0, text.bytes.size() - part.size()));
  return Value(text);
}

template <class Predicate>
Value all_characters(std::string_view name, const Text& text, Predicate&& predicate) {
  for (char c : text.bytes)
    if (static_cast<uint8_t>(c) >= 0x80) throw TemplateError(fmt::format("{} of text beyond ASCII is not supported", name));
  return Value(!text.bytes.empty() && std::all_of(text.bytes.begin(), text.bytes.end(), predicate));
}

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::string_view kMethods[] = {
    "split",  "rsplit",  "strip",   "lstrip", "rstrip", "startswith", "endswith", "upper",        "lower",        "title",   "capitalize",
    "find",   "rfind",   "index",   "rindex", "count",  "replace",    "join",     "splitlines",   "removeprefix", "removesuffix",
    "isdigit", "isalpha", "isalnum", "isspace"};

// Methods of Python's str that stand for something, and are not here.
constexpr std::string_view kMissing[] = {
    "casefold",     "center",       "encode",    "expandtabs", "format",  "format_map", "isascii",   "isdecimal", "isidentifier",
    "islower",      "isnumeric",    "isprintable", "istitle",  "isupper", "ljust",      "maketrans", "partition", "rjust",
    "rpartition",   "swapcase",     "translate", "zfill"};

}  // namespace

bool has_text_method(std::string_view name) {
  if (std::find(std::begin(kMissing), std::end(kMissing), name) != std::end(kMissing))
    throw TemplateError(fmt::format("the text method \"{}\" is not supported", name));
  return std::find(std::begin(kMethods), std::end(kMethods), name) != std::end(kMethods);
}

Text strip_text(const Text& text, const Value* characters, bool left, bool right, Budget& budget) {
  std::vector<uint32_t> wanted;
  const bool given = optional_text(characters, "the argument of strip");
  if (given)
    for (size_t at = 0; at < characters->text()->bytes.size();) {
      const auto [c, length] = decode_valid_utf8(characters->text()->bytes, at);
      wanted.push_back(c);
      at += length;
    }
  const auto strips = [&](uint32_t c) {
    budget.step();
    return given ? std::find(wanted.begin(), wanted.end(), c) != wanted.end() : is_python_space(c);
  };
  size_t begin = 0, end = text.bytes.size();
  while (left && begin < end && strips(decode_valid_utf8(text.bytes, begin).code_point))
    begin += decode_valid_utf8(text.bytes, begin).length;
  while (right && end > begin && strips(decode_valid_utf8(text.bytes, previous(text.bytes, end)).code_point))
    end = previous(text.bytes, end);
  budget.grow(end - begin);
  return slice(text, begin, end);
}

Text replace_text(const Text& text, const Text& from, const Text& to, int64_t most, Budget& budget) {
  Text out;
  size_t done = 0;
  const auto put = [&](size_t at) {
    budget.grow(at - done + to.bytes.size() + 16);
    out.append(text, done, at);
    out.append(to);
    --most;
  };
  if (from.bytes.empty()) {  // between all characters
    for (size_t at : code_point_offsets(text.bytes)) {
      if (most == 0) break;
      put(at);
      done = at;
    }
  } else {
    for (size_t at = 0; most != 0 && (at = text.bytes.find(from.bytes, at)) != std::string::npos;) {
      put(at);
      done = at += from.bytes.size();
    }
  }
  budget.grow(text.bytes.size() - done);
  out.append(text, done, text.bytes.size());
  return out;
}

std::vector<Value> split_lines(const Text& text, bool keep_ends, Budget& budget) {
  std::vector<Value> lines;
  size_t begin = 0;
  const std::string& s = text.bytes;
  for (size_t at = 0; at < s.size();) {
    const auto [c, length] = decode_valid_utf8(s, at);
    const size_t here = at;
    at += length;
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && at < s.size() && s[at] == '\n') ++at;
    budget.grow(128 + at - begin);
    lines.emplace_back(slice(text, begin, keep_ends ? at : here));
    begin = at;
  }
  budget.grow(s.size() - begin);
  if (begin < s.size()) lines.emplace_back(slice(text, begin, s.size()));
  return lines;
}

Text join_text(const std::vector<Value>& items, const Text& separator, bool texts_only, Budget& budget) {
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (texts_only && items[i].text() == nullptr)
      throw TemplateError(fmt::format("join needs texts, not a {}", items[i].type_name()));
    if (i > 0) out.append(separator);
    const Text part = to_text(items[i], budget);
    budget.grow(part.bytes.size() + separator.bytes.size());
    out.append(part);
  }
  return out;
}

Text format_percent(const Text& format, const std::vector<Value>& values, Runtime& runtime) {
  Text out;
  size_t next = 0, done = 0;
  for (size_t at = 0; (at = format.bytes.find('%', at)) != std::string::npos; at += 2, done = at) {
    out.append(format, done, at);
    const char kind = at + 1 < format.bytes.size() ? format.bytes[at + 1] : '\0';
    if (kind == '%') {
      out.append("%");
      continue;
    }
    if (kind != 's' && kind != 'd' && kind != 'i' && kind != 'r')
      throw TemplateError(fmt::format("the format {} is not supported", in_quotes(std::string_view(format.bytes).substr(at, 2))));
    if (next >= values.size()) throw TemplateError("a format has more places than values");
    const Value& value = values[next++];
    if (kind == 'd' || kind == 'i') {
      out.append(std::to_string(integer_argument(value, "a value for %d")));
    } else {
      out.append(kind == 'r' ? to_repr(value, runtime.budget) : to_text(value, runtime.budget));
    }
    runtime.budget.grow(out.bytes.size() / 8 + 16);
  }
  out.append(format, done, format.bytes.size());
  if (next != values.size()) throw TemplateError("a format has fewer places than values");
  return out;
}

Value call_text_method(std::string_view name, const std::shared_ptr<const Text>& self, const Arguments& a, Runtime& runtime) {
  const Text& text = *self;
  Budget& budget = runtime.budget;
  if (name == "split" || name == "rsplit") return split(text, a, name == "rsplit", budget);
  if (name == "startswith" || name == "endswith") return starts_or_ends(text, a, name == "startswith");
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count")
    return find_or_count(name, text, a, budget);
  if (name == "removeprefix" || name == "removesuffix") return remove_affix(text, a, name == "removeprefix");
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    a.expect(name, 0, 1, {});
    return Value(strip_text(text, a.get(0, "chars"), name != "rstrip", name != "lstrip", budget));
  }
  if (name == "replace") {
    a.expect(name, 2, 3, {"count"});
    const Value* count = a.get(2, "count");
    return Value(replace_text(text, text_argument(a.positional.at(0), "what replace looks for"),
                              text_argument(a.positional.at(1), "what replace puts in"),
                              count == nullptr ? -1 : integer_argument(*count, "the count of replace"), budget));
  }
  if (name == "join") {
    a.expect(name, 1, 1);
    return Value(join_text(iterate(a.positional.at(0), budget), text, true, budget));
  }
  if (name == "splitlines") {
    a.expect(name, 0, 1, {"keepends"});
    const Value* keep = a.get(0, "keepends");
    return Value::list(split_lines(text, keep != nullptr && keep->truth(), budget));
  }
  a.expect(name, 0, 0);
  budget.grow(text.bytes.size());
  if (name == "isdigit") return all_characters(name, text, is_digit);
  if (name == "isalpha") return all_characters(name, text, [](char c) { return is_lower(c) || is_upper(c); });
  if (name == "isalnum") return all_characters(name, text, [](char c) { return is_lower(c) || is_upper(c) || is_digit(c); });
  if (name == "isspace") return all_characters(name, text, [](char c) { return is_python_space(static_cast<uint8_t>(c)); });
  return Value(change_case(text, name));
}

}  // namespace zeroulp::tokenizer::jinja
