#include "tokenizer/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace zeroulp::tokenizer::jinja {

const Value* Dict::find(std::string_view key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &items_[it->second].second;
}

void Dict::set(const Text& key, Value value) {
  const auto [it, is_new] = index_.try_emplace(key.bytes, items_.size());
  if (is_new) {
    items_.emplace_back(std::make_shared<const Text>(key), std::move(value));
  } else {
    items_[it->second].second = std::move(value);
  }
}

void Dict::clear() {
  items_.clear();
  index_.clear();
}

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"Undefined", "NoneType", "bool", "int", "float", "str", "list", "dict", "function"};
  if (const Sequence* s = sequence(); s != nullptr && s->tuple) return "tuple";
  return kNames[storage_.index()];
}

bool Value::truth() const {
  if (undefined() || none()) return false;
  if (boolean() != nullptr) return *boolean();
  if (integer() != nullptr) return *integer() != 0;
  if (real() != nullptr) return *real() != 0;
  if (text() != nullptr) return !text()->bytes.empty();
  if (sequence() != nullptr) return !sequence()->items.empty();
  if (dict() != nullptr) return dict()->is_namespace || !dict()->items().empty();
  return true;
}

bool Value::as_integer(int64_t& out) const {
  if (integer() != nullptr) return out = *integer(), true;
  if (boolean() != nullptr) return out = *boolean() ? 1 : 0, true;
  return false;
}

bool Value::as_number(double& out) const {
  if (real() != nullptr) return out = *real(), true;
  int64_t i = 0;
  if (!as_integer(i)) return false;
  out = static_cast<double>(i);
  return true;
}

const Value* Arguments::get(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

void Arguments::expect(std::string_view callee, size_t least, size_t most, std::initializer_list<std::string_view> names) const {
  for (const auto& [key, value] : named)
    if (std::find(names.begin(), names.end(), key) == names.end())
      throw TemplateError(fmt::format("{} has no argument \"{}\" here", callee, key));
  if (positional.size() > most || positional.size() + named.size() < least)
    throw TemplateError(fmt::format("{} does not take {} arguments here", callee, positional.size() + named.size()));
}

void Budget::step(uint64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) throw TemplateError(fmt::format("more than {} steps; it may not end", limits_.steps));
}

void Budget::grow(uint64_t count) {
  if (count > limits_.bytes - bytes_) throw TemplateError(fmt::format("more than {} bytes of memory used", limits_.bytes));
  bytes_ += count;
  step(count / 256);
}

void Budget::output(uint64_t size) const {
  if (size > limits_.output) throw TemplateError(fmt::format("the prompt is larger than {} bytes", limits_.output));
}

Budget::Nesting::Nesting(Budget& budget) : budget_(budget) {
  if (budget_.depth_ >= budget_.limits_.depth)
    throw TemplateError(fmt::format("nested deeper than {} levels", budget_.limits_.depth));
  ++budget_.depth_;
}

std::string repr_of_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view all(buffer, end - buffer);
  const size_t e = all.find('e');
  int exponent = 0;
  std::from_chars(all.data() + e + (all[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent >= -4 && exponent < 16) {
    const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
    std::string text(buffer, fixed);
    return text.find('.') == std::string::npos ? text + ".0" : text;
  }
  return fmt::format("{}e{}{:02}", all.substr(0, e), exponent < 0 ? '-' : '+', std::abs(exponent));
}

namespace {

void repr_text(const Text& text, Text& out) {
  const bool has_single = text.bytes.find('\'') != std::string::npos, has_double = text.bytes.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  for (size_t at = 0; at < text.bytes.size();) {
    const auto [c, length] = decode_valid_utf8(text.bytes, at);
    std::string escaped;
    if (c == static_cast<uint32_t>(quote) || c == '\\') escaped = fmt::format("\\{}", static_cast<char>(c));
    if (c == '\n') escaped = "\\n";
    if (c == '\r') escaped = "\\r";
    if (c == '\t') escaped = "\\t";
    if (escaped.empty() && (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD)) escaped = fmt::format("\\x{:02x}", c);
    if (escaped.empty()) {
      out.append(text, at, at + length);
    } else {
      out.append_in_place_of(text, at, at + length, escaped);
    }
    at += length;
  }
  out.append(std::string_view(&quote, 1));
}

void repr_into(const Value& value, Text& out, Budget& budget) {
  const Budget::Nesting nesting(budget);
  budget.step();
  const size_t before = out.bytes.size();
  if (value.text() != nullptr) {
    repr_text(*value.text(), out);
  } else if (const Sequence* s = value.sequence()) {
    out.append(s->tuple ? "(" : "[");
    for (size_t i = 0; i < s->items.size(); ++i) {
      if (i > 0) out.append(", ");
      repr_into(s->items[i], out, budget);
    }
    out.append(s->tuple ? (s->items.size() == 1 ? ",)" : ")") : "]");
    return;
  } else if (const Dict* d = value.dict()) {
    if (d->is_namespace) throw TemplateError("a namespace cannot be printed");
    out.append("{");
    for (size_t i = 0; i < d->items().size(); ++i) {
      if (i > 0) out.append(", ");
      repr_text(*d->items()[i].first, out);
      out.append(": ");
      repr_into(d->items()[i].second, out, budget);
    }
    out.append("}");
    return;
  } else if (value.callable() != nullptr) {
    throw TemplateError(fmt::format("{} is a function and cannot be printed; is a call's () missing?", value.callable()->name));
  } else if (value.none()) {
    out.append("None");
  } else if (value.boolean() != nullptr) {
    out.append(*value.boolean() ? "True" : "False");
  } else if (value.integer() != nullptr) {
    out.append(std::to_string(*value.integer()));
  } else if (value.real() != nullptr) {
    out.append(repr_of_real(*value.real()));
  } else {
    out.append("Undefined");
  }
  budget.grow(out.bytes.size() - before);
}

}  // namespace

Text to_repr(const Value& value, Budget& budget) {
  Text out;
  repr_into(value, out, budget);
  return out;
}

Text to_text(const Value& value, Budget& budget) {
  if (value.text() != nullptr) return *value.text();
  if (value.undefined()) return Text();
  return to_repr(value, budget);
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  const Budget::Nesting nesting(budget);
  budget.step();
  double x = 0, y = 0;
  int64_t i = 0, j = 0;
  if (a.as_integer(i) && b.as_integer(j)) return i == j;
  if (a.as_number(x) && b.as_number(y)) return x == y;
  if (a.storage().index() != b.storage().index()) return false;
  if (a.undefined() || a.none()) return true;
  if (a.text() != nullptr) return a.text()->bytes == b.text()->bytes;
  if (const Sequence *s = a.sequence(), *t = b.sequence(); s != nullptr) {
    if (s->tuple != t->tuple || s->items.size() != t->items.size()) return false;
    for (size_t k = 0; k < s->items.size(); ++k)
      if (!equal(s->items[k], t->items[k], budget)) return false;
    return true;
  }
  if (const Dict *d = a.dict(), *e = b.dict(); d != nullptr) {
    if (d->is_namespace || e->is_namespace) return d == e;
    if (d->items().size() != e->items().size()) return false;
    for (const auto& [key, value] : d->items()) {
      const Value* other = e->find(key->bytes);
      if (other == nullptr || !equal(value, *other, budget)) return false;
    }
    return true;
  }
  return a.callable() == b.callable();
}

bool less(const Value& a, const Value& b, Budget& budget) {
  const Budget::Nesting nesting(budget);
  budget.step();
  double x = 0, y = 0;
  int64_t i = 0, j = 0;
  if (a.as_integer(i) && b.as_integer(j)) return i < j;
  if (a.as_number(x) && b.as_number(y)) return x < y;
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes < b.text()->bytes;  // UTF-8 keeps the order
  if (const Sequence *s = a.sequence(), *t = b.sequence(); s != nullptr && t != nullptr && s->tuple == t->tuple) {
    for (size_t k = 0; k < std::min(s->items.size(), t->items.size()); ++k)
      if (!equal(s->items[k], t->items[k], budget)) return less(s->items[k], t->items[k], budget);
    return s->items.size() < t->items.size();
  }
  throw TemplateError(fmt::format("{} and {} have no order", a.type_name(), b.type_name()));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  budget.step();
  if (const Text* text = container.text()) {
    if (item.text() == nullptr) throw TemplateError(fmt::format("{} cannot be looked for in a text", item.type_name()));
    budget.step(text->bytes.size() / 64 + text->bytes.size() / 256 * (item.text()->bytes.size() / 256));
    return text->bytes.find(item.text()->bytes) != std::string::npos;
  }
  if (const Dict* d = container.dict()) return item.text() != nullptr && d->find(item.text()->bytes) != nullptr;
  if (const Sequence* s = container.sequence())
    return std::any_of(s->items.begin(), s->items.end(), [&](const Value& v) { return equal(v, item, budget); });
  if (container.undefined()) return false;
  throw TemplateError(fmt::format("nothing can be looked for in a {}", container.type_name()));
}

std::vector<Value> iterate(const Value& value, Budget& budget) {
  std::vector<Value> items;
  if (const Sequence* s = value.sequence()) {
    budget.grow(s->items.size() * sizeof(Value));
    items = s->items;
  } else if (const Dict* d = value.dict(); d != nullptr && !d->is_namespace) {
    budget.grow(d->items().size() * sizeof(Value));
    for (const auto& [key, unused] : d->items()) items.emplace_back(key);
  } else if (const Text* text = value.text()) {
    const std::vector<size_t> offsets = code_point_offsets(text->bytes);
    budget.grow(offsets.size() * (sizeof(Value) + sizeof(Text) + 16));
    for (size_t i = 0; i + 1 < offsets.size(); ++i) items.emplace_back(slice(*text, offsets[i], offsets[i + 1]));
  } else if (!value.undefined()) {
    throw TemplateError(fmt::format("a {} cannot be gone through", value.type_name()));
  }
  return items;
}

}  // namespace zeroulp::tokenizer::jinja
