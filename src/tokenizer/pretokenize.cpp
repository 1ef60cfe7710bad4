#include "tokenizer/pretokenize.h"

#include "tokenizer/unicode.h"

namespace zeroulp::tokenizer {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr uint8_t kKindOfText = kLetter | kNumber | kSpace;

// One code point of the text with its classes; past the end: length 0.
struct Char {
  uint32_t code_point = 0;
  uint8_t classes = 0;
  int length = 0;

  bool is(uint8_t mask) const { return (classes & mask) != 0; }
  bool other() const { return length != 0 && !is(kKindOfText); }
  bool newline() const { return code_point == '\n' || code_point == '\r'; }
};

// The alternatives of the expressions, each a function from a start to the end of its match, or to the start if none.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  size_t next(PreTokenizer kind, size_t at) const { return kind == PreTokenizer::kGpt2 ? gpt2(at) : newer(kind, at); }

 private:
  Char look(size_t at) const {
    if (at >= text_.size()) return {};
    const auto [c, length] = decode_valid_utf8(text_, at);
    return {c, code_point_classes(c), length};
  }

  template <class Predicate>
  size_t run(size_t at, Predicate&& wanted) const {
    for (Char c = look(at); c.length != 0 && wanted(c); c = look(at)) at += c.length;
    return at;
  }
  size_t letters(size_t at) const {
    return run(at, [](const Char& c) { return c.is(kLetter); });
  }
  size_t others(size_t at) const {
    return run(at, [](const Char& c) { return c.other(); });
  }

  // 's|'t|'re|'ve|'m|'ll|'d. Without regard to case, U+017F (long s) is an s too.
  size_t contraction(size_t at, bool fold) const {
    if (text_[at] != '\'') return at;
    const auto letter = [&](size_t i) -> char {
      if (i >= text_.size()) return '\0';
      const char c = text_[i];
      return fold && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    };
    const char a = letter(at + 1), b = letter(at + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at + 3;
    if (fold && text_.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
    return at;
  }

  // \s+(?!\S)|\s+ on a run of white space that starts at `at`: the last one belongs to what follows, if anything does.
  size_t spaces(size_t at) const {
    size_t last = at, end = at;
    for (Char c = look(end); c.is(kSpace); c = look(end)) {
      last = end;
      end += c.length;
    }
    return end == text_.size() || last == at ? end : last;
  }

  size_t gpt2(size_t at) const {
    if (const size_t end = contraction(at, false); end != at) return end;
    const size_t start = text_[at] == ' ' ? at + 1 : at;
    const Char first = look(start);
    if (first.is(kLetter)) return letters(start);
    if (first.is(kNumber)) return run(start, [](const Char& c) { return c.is(kNumber); });
    if (first.other()) return others(start);
    return spaces(at);
  }

  size_t newer(PreTokenizer kind, size_t at) const {
    if (const size_t end = contraction(at, true); end != at) return end;
    const Char first = look(at);
    if (first.is(kLetter)) return letters(at);
    if (!first.is(kNumber) && !first.newline() && look(at + first.length).is(kLetter)) return letters(at + first.length);
    if (first.is(kNumber)) return numbers(at, kind == PreTokenizer::kLlama3 ? 3 : 1);
    const size_t start = first.code_point == ' ' ? at + 1 : at;
    if (look(start).other())
      return run(others(start), [](const Char& c) { return c.newline(); });
    if (const size_t end = through_last_newline(at); end != at) return end;
    return spaces(at);
  }

  size_t numbers(size_t at, int most) const {
    for (Char c = look(at); most > 0 && c.is(kNumber); c = look(at)) {
      at += c.length;
      --most;
    }
    return at;
  }

  // \s*[\r\n]+
  size_t through_last_newline(size_t at) const {
    size_t end = at;
    for (Char c = look(at); c.is(kSpace); c = look(at)) {
      at += c.length;
      if (c.newline()) end = at;
    }
    return end;
  }

  std::string_view text_;
};

void cut(PreTokenizer kind, std::string_view text, std::vector<std::string_view>& pieces) {
  const Scanner scanner(text);
  for (size_t at = 0; at < text.size();) {
    const size_t end = scanner.next(kind, at);
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
}

void cut_digits_first(std::string_view text, std::vector<std::string_view>& pieces) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto [c, length] = decode_valid_utf8(text, at);
    if (code_point_classes(c) & kDigit) {
      cut(PreTokenizer::kGpt2, text.substr(begin, at - begin), pieces);
      cut(PreTokenizer::kGpt2, text.substr(at, length), pieces);
      begin = at + length;
    }
    at += length;
  }
  cut(PreTokenizer::kGpt2, text.substr(begin), pieces);
}

}  // namespace

std::optional<PreTokenizer> pre_tokenizer_of_pattern(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return PreTokenizer::kGpt2;
  if (pattern == kLlama3Pattern) return PreTokenizer::kLlama3;
  if (pattern == kQwen2Pattern) return PreTokenizer::kQwen2;
  return std::nullopt;
}

std::string_view name_of(PreTokenizer kind) {
  switch (kind) {
    case PreTokenizer::kGpt2: return "gpt2";
    case PreTokenizer::kLlama3: return "llama3";
    case PreTokenizer::kQwen2: return "qwen2";
    case PreTokenizer::kSmolLm2: return "smollm2";
  }
  return "";
}

void pre_tokenize(PreTokenizer kind, std::string_view text, std::vector<std::string_view>& pieces) {
  pieces.clear();
  if (kind == PreTokenizer::kSmolLm2) return cut_digits_first(text, pieces);
  cut(kind, text, pieces);
}

}  // namespace zeroulp::tokenizer
