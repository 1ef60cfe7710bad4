// json.dumps() of Python, keeping the origin of every byte.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tokenizer/jinja/value.h"

namespace zeroulp::tokenizer::jinja {
namespace {

std::string escape(uint32_t c, bool ascii) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: break;
  }
  if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) return fmt::format("\\u{:04x}", c);
  if (ascii && c >= 0x10000) return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
  return "";
}

class Writer {
 public:
  Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void write(const Value& value, int level) {
    const Budget::Nesting nesting(budget_);
    budget_.step();
    if (value.text() != nullptr) return text(*value.text());
    if (value.sequence() != nullptr) return sequence(*value.sequence(), level);
    if (value.dict() != nullptr && !value.dict()->is_namespace) return dict(*value.dict(), level);
    if (value.none()) return out_.append("null");
    if (value.boolean() != nullptr) return out_.append(*value.boolean() ? "true" : "false");
    if (value.integer() != nullptr) return out_.append(std::to_string(*value.integer()));
    if (value.real() == nullptr) throw TemplateError(fmt::format("a value of type {} cannot be written as JSON", value.type_name()));
    const double v = *value.real();
    out_.append(std::isfinite(v) ? repr_of_real(v) : std::isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity");
  }
  Text take() { return std::move(out_); }

 private:
  void text(const Text& value) {
    budget_.grow(value.bytes.size());
    out_.append("\"");
    size_t plain = 0;
    for (size_t at = 0; at < value.bytes.size();) {
      const auto [c, length] = decode_valid_utf8(value.bytes, at);
      if (const std::string escaped = escape(c, style_.ascii); !escaped.empty()) {
        out_.append(value, plain, at);
        out_.append_in_place_of(value, at, at + length, escaped);
        plain = at + length;
      }
      at += length;
    }
    out_.append(value, plain, value.bytes.size());
    out_.append("\"");
  }

  void line(int level) {
    if (style_.indent < 0) return;
    const size_t width = static_cast<size_t>(style_.indent) * level;
    budget_.grow(width + 1);
    out_.append("\n");
    out_.append(std::string(width, ' '));
  }

  template <class Items, class Each>
  void bracketed(char open, char close, const Items& items, int level, Each&& each) {
    out_.append(std::string_view(&open, 1));
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      line(level + 1);
      each(item);
    }
    if (!first) line(level);
    out_.append(std::string_view(&close, 1));
  }

  void sequence(const Sequence& value, int level) {
    bracketed('[', ']', value.items, level, [&](const Value& item) { write(item, level + 1); });
  }

  void dict(const Dict& value, int level) {
    auto items = value.items();
    budget_.grow(items.size() * sizeof(items[0]));
    if (style_.sort_keys)
      std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.first->bytes < b.first->bytes; });
    bracketed('{', '}', items, level, [&](const auto& item) {
      text(*item.first);
      out_.append(style_.key_separator);
      write(item.second, level + 1);
    });
  }

  const JsonStyle& style_;
  Budget& budget_;
  Text out_;
};

}  // namespace

Text to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(style, budget);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace zeroulp::tokenizer::jinja
