#include "tokenizer/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "tokenizer/jinja/text.h"
#include "tokenizer/jinja/value.h"

namespace zeroulp::tokenizer::jinja {
namespace {

constexpr size_t kMaxTokens = 1 << 18;

bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) {
    // Line ends become \n, and one at the very end is dropped, as jinja2 does.
    source_.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] == '\r') {
        source_ += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      } else {
        source_ += source[i];
      }
    }
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) data();
    put(Token::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw TemplateError(what, line_); }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool next_is(std::string_view text) const { return rest().starts_with(text); }

  void advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + count, '\n'));
    at_ += count;
  }
  void put(Token::Kind kind, std::string text) {
    if (tokens_.size() >= kMaxTokens) fail(fmt::format("more than {} tokens", kMaxTokens));
    tokens_.push_back({kind, std::move(text), line_});
  }
  size_t spaces_end(size_t at) const {
    while (at < source_.size()) {
      const auto [c, length] = decode_valid_utf8(source_, at);
      if (!is_python_space(c)) break;
      at += length;
    }
    return at;
  }
  static size_t trimmed_end(std::string_view text) {
    while (!text.empty()) {
      size_t at = text.size() - 1;
      while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
      if (!is_python_space(decode_valid_utf8(text, at).code_point)) break;
      text = text.substr(0, at);
    }
    return text.size();
  }

  // The text before a tag, cut as the tag's sign and lstrip_blocks say. `sign`: '-', '+' or 0.
  std::string_view before_tag(std::string_view text, char sign, bool is_print) const {
    if (sign == '-') return text.substr(0, trimmed_end(text));
    if (sign == '+' || is_print) return text;
    const size_t newline = text.rfind('\n');
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    if (start == 0 && !line_starting_) return text;
    return trimmed_end(text.substr(start)) == 0 ? text.substr(0, start) : text;
  }

  // Steps over the end of a tag or comment: "-X" takes white space after it, and trims_newline one line end unless "+X".
  bool step_over_end(std::string_view end, bool trims_newline) {
    size_t length = 0;
    if (next_is(fmt::format("-{}", end))) {
      length = spaces_end(at_ + end.size() + 1) - at_;
    } else if (trims_newline && next_is(fmt::format("+{}", end))) {
      length = end.size() + 1;
    } else if (next_is(end)) {
      length = end.size();
      if (trims_newline && at_ + length < source_.size() && source_[at_ + length] == '\n') ++length;
    } else {
      return false;
    }
    line_starting_ = source_[at_ + length - 1] == '\n';
    advance(length);
    return true;
  }

  static char sign_of(std::string_view tag) { return tag.size() > 2 && (tag[2] == '-' || tag[2] == '+') ? tag[2] : '\0'; }

  void data() {
    size_t open = at_;
    for (;; ++open) {
      open = source_.find('{', open);
      if (open == std::string::npos || open + 1 >= source_.size()) {
        open = source_.size();
        break;
      }
      if (source_[open + 1] == '{' || source_[open + 1] == '%' || source_[open + 1] == '#') break;
    }
    const std::string_view text = rest().substr(0, open - at_);
    if (open == source_.size()) {
      if (!text.empty()) put(Token::kData, std::string(text));
      return advance(text.size());
    }
    const char type = source_[open + 1];
    const char sign = sign_of(std::string_view(source_).substr(open, 3));
    const std::string_view kept = before_tag(text, sign, type == '{');
    if (!kept.empty()) put(Token::kData, std::string(kept));
    advance(text.size());
    const size_t opening = sign != '\0' ? 3 : 2;
    if (type == '#') return comment(opening);
    if (type == '%' && raw(opening)) return;
    put(type == '{' ? Token::kPrintBegin : Token::kBlockBegin, "");
    advance(opening);
    tag(type == '{');
  }

  void comment(size_t opening) {
    const size_t end = source_.find("#}", at_ + opening);
    if (end == std::string::npos) fail("a comment {# is not closed");
    const bool has_sign = end > at_ + opening && (source_[end - 1] == '-' || source_[end - 1] == '+');
    advance(end - (has_sign ? 1 : 0) - at_);
    step_over_end("#}", true);
  }

  // {% raw %} ... {% endraw %}: text as it stands.
  bool raw(size_t opening) {
    size_t at = spaces_end(at_ + opening);
    if (source_.compare(at, 3, "raw") != 0) return false;
    at = spaces_end(at + 3);
    if (source_.compare(at, 2, "%}") != 0 && source_.compare(at, 3, "-%}") != 0) return false;
    advance(at - at_);
    step_over_end("%}", false);
    for (size_t open = at_; (open = source_.find("{%", open)) != std::string::npos; ++open) {
      const char sign = sign_of(std::string_view(source_).substr(open, 3));
      const size_t word = spaces_end(open + (sign != '\0' ? 3 : 2));
      const size_t close = word + 6;
      if (source_.compare(word, 6, "endraw") != 0) continue;
      const std::string_view text = rest().substr(0, open - at_);
      const std::string kept(before_tag(text, sign, false));
      const size_t end = spaces_end(close);
      if (!kept.empty()) put(Token::kData, kept);
      advance(end - at_);
      if (!step_over_end("%}", true)) fail("{% endraw is not closed");
      return true;
    }
    fail("{% raw %} has no {% endraw %}");
  }

  void tag(bool print) {
    const std::string_view end = print ? "}}" : "%}";
    std::string open;  // brackets that wait for their partner; inside them "}}" does not end the tag
    for (;;) {
      advance(spaces_end(at_) - at_);
      if (at_ >= source_.size()) fail(fmt::format("a tag is not closed by {}", end));
      if (open.empty() && step_over_end(end, !print)) break;
      const char c = source_[at_];
      if (name_start(c)) {
        name();
      } else if (digit(c)) {
        number();
      } else if (c == '"' || c == '\'') {
        string(c);
      } else {
        operator_(open);
      }
    }
    put(print ? Token::kPrintEnd : Token::kBlockEnd, "");
  }

  void name() {
    size_t end = at_;
    while (end < source_.size() && (name_start(source_[end]) || digit(source_[end]))) ++end;
    put(Token::kName, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  void number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && digit(source_[end])) ++end;
    };
    digits();
    bool real = false;
    if (end + 1 < source_.size() && source_[end] == '.' && digit(source_[end + 1]) &&
        (tokens_.empty() || tokens_.back().kind != Token::kOperator || tokens_.back().text != ".")) {
      real = true;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t power = end + 1;
      if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
      if (power < source_.size() && digit(source_[power])) {
        real = true;
        end = power;
        digits();
      }
    }
    if (end < source_.size() && (name_start(source_[end])))
      fail(fmt::format("the number {} is not supported", in_quotes(rest().substr(0, end + 1 - at_))));
    put(real ? Token::kReal : Token::kInteger, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  void string(char quote) {
    const int line = line_;
    size_t at = at_ + 1;
    while (at < source_.size() && source_[at] != quote) at += source_[at] == '\\' ? 2 : 1;
    if (at >= source_.size()) fail("a text is not closed by its quote");
    std::string value = unescape(std::string_view(source_).substr(at_ + 1, at - at_ - 1));
    advance(at + 1 - at_);
    put(Token::kString, std::move(value));
    tokens_.back().line = line;
  }

  // Python's escapes; an unknown one keeps its backslash.
  std::string unescape(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 >= text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      static constexpr std::string_view kLetters = "abfnrtv\\'\"", kValues = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t k = kLetters.find(c); k != std::string_view::npos) {
        out += kValues[k];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        i += code_escape(text.substr(i + 1), c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, out);
      } else if (c >= '0' && c <= '7') {
        size_t count = 1;
        while (count < 3 && i + count < text.size() && text[i + count] >= '0' && text[i + count] <= '7') ++count;
        i += code_escape(text.substr(i), count, 8, out) - 1;
      } else if (c == 'N') {
        fail("the escape \\N{...} is not supported");
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  size_t code_escape(std::string_view text, size_t count, uint32_t base, std::string& out) const {
    uint32_t value = 0;
    for (size_t k = 0; k < count; ++k) {
      const char c = k < text.size() ? text[k] : ' ';
      const uint32_t d = digit(c)               ? c - '0'
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                : 99;
      if (d >= base) fail("a \\x, \\u or \\U escape lacks digits");
      value = value * base + d;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) fail("an escape is no Unicode character (surrogates are none)");
    append_utf8(out, value);
    return count;
  }

  void operator_(std::string& open) {
    static constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "/", "*", "%", "~", "[",
                                                      "]",  "(",  ")",  "{",  "}",  "<",  ">", "=", ".", ":", "|", ",", ";"};
    for (std::string_view op : kOperators) {
      if (!next_is(op)) continue;
      const char c = op[0];
      if (c == '(' || c == '[' || c == '{') open += c;
      if (c == ')' || c == ']' || c == '}') {
        const char partner = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (open.empty() || open.back() != partner) fail(fmt::format("{} closes nothing", c));
        open.pop_back();
      }
      put(Token::kOperator, std::string(op));
      return advance(op.size());
    }
    fail(fmt::format("{} is no part of a tag", in_quotes(rest().substr(0, 1))));
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace zeroulp::tokenizer::jinja
