// Arithmetic, comparison, attributes, items and slices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tokenizer/jinja/builtins.h"

namespace zeroulp::tokenizer::jinja {
namespace {

[[noreturn]] void no_such_operation(std::string_view op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (v->undefined()) throw TemplateError(fmt::format("{} is undefined", in_quotes(std::get<Undefined>(v->storage()).name)));
  throw TemplateError(fmt::format("{} {} {} is not supported", a.type_name(), op, b.type_name()));
}

[[noreturn]] void overflow() { throw TemplateError("an integer does not fit in 64 bits"); }

Value integer_operation(std::string_view op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "+") return __builtin_add_overflow(a, b, &out) ? overflow(), Value() : Value(out);
  if (op == "-") return __builtin_sub_overflow(a, b, &out) ? overflow(), Value() : Value(out);
  if (op == "*") return __builtin_mul_overflow(a, b, &out) ? overflow(), Value() : Value(out);
  if (op == "**") {
    if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
    if (a == 0 || a == 1) return Value(b == 0 ? int64_t{1} : a);
    if (a == -1) return Value(b % 2 == 0 ? int64_t{1} : a);
    int64_t power = 1;
    for (int64_t i = 0; i < b; ++i)
      if (__builtin_mul_overflow(power, a, &power)) overflow();
    return Value(power);
  }
  if (b == 0) throw TemplateError("division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (a == INT64_MIN && b == -1) overflow();
  const int64_t rest = a % b;
  const bool away = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down
  return op == "//" ? Value(a / b - (away ? 1 : 0)) : Value(away ? rest + b : rest);
}

Value real_operation(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) throw TemplateError("division by zero");
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Value repeat(const Value& value, int64_t count, Budget& budget) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  const uint64_t size = value.text() != nullptr ? value.text()->bytes.size() + value.text()->content.size() * sizeof(ByteSpan)
                                                : value.sequence()->items.size() * sizeof(Value);
  if (size == 0 || times == 0) return value.text() != nullptr ? Value(Text()) : Value::list({});
  if (times > (1ull << 40) / size) throw TemplateError("a repetition is too large");
  budget.grow(size * times);
  if (value.text() != nullptr) {
    Text out;
    for (uint64_t i = 0; i < times; ++i) out.append(*value.text());
    return Value(std::move(out));
  }
  std::vector<Value> items;
  for (uint64_t i = 0; i < times; ++i) items.insert(items.end(), value.sequence()->items.begin(), value.sequence()->items.end());
  return value.sequence()->tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value concatenate(const Value& a, const Value& b, Budget& budget) {
  if (a.text() != nullptr && b.text() != nullptr) {
    budget.grow(a.text()->bytes.size() + b.text()->bytes.size());
    Text out = *a.text();
    out.append(*b.text());
    return Value(std::move(out));
  }
  const Sequence *s = a.sequence(), *t = b.sequence();
  if (s == nullptr || t == nullptr || s->tuple != t->tuple) no_such_operation("+", a, b);
  budget.grow((s->items.size() + t->items.size()) * sizeof(Value));
  std::vector<Value> items = s->items;
  items.insert(items.end(), t->items.begin(), t->items.end());
  return s->tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value undefined_member(const Value& value, std::string_view name) {
  return Value(Undefined{fmt::format("{} of a {}", name, value.type_name())});
}

}  // namespace

Value binary_operation(std::string_view op, const Value& a, const Value& b, Runtime& runtime) {
  Budget& budget = runtime.budget;
  budget.step();
  if (op == "~") {
    Text out = to_text(a, budget);
    const Text right = to_text(b, budget);
    budget.grow(out.bytes.size() + right.bytes.size());
    out.append(right);
    return Value(std::move(out));
  }
  int64_t i = 0, j = 0;
  double x = 0, y = 0;
  if (a.as_integer(i) && b.as_integer(j)) return integer_operation(op, i, j);
  if (a.as_number(x) && b.as_number(y)) return real_operation(op, x, y);
  if (op == "+") return concatenate(a, b, budget);
  if (op == "*" && (a.text() != nullptr || a.sequence() != nullptr) && b.as_integer(j)) return repeat(a, j, budget);
  if (op == "*" && (b.text() != nullptr || b.sequence() != nullptr) && a.as_integer(i)) return repeat(b, i, budget);
  if (op == "%" && a.text() != nullptr) {
    const bool several = b.sequence() != nullptr && b.sequence()->tuple;
    return Value(format_percent(*a.text(), several ? b.sequence()->items : std::vector<Value>{b}, runtime));
  }
  no_such_operation(op, a, b);
}

Value unary_operation(std::string_view op, const Value& a, Runtime& runtime) {
  runtime.budget.step();
  if (op == "not") return Value(!a.truth());
  int64_t i = 0;
  if (a.as_integer(i)) return op == "-" ? integer_operation("-", 0, i) : Value(i);
  if (a.real() != nullptr) return Value(op == "-" ? -*a.real() : *a.real());
  if (a.undefined()) no_such_operation(op, a, a);
  throw TemplateError(fmt::format("{}{} is not supported", op, a.type_name()));
}

bool compare(std::string_view op, const Value& a, const Value& b, Runtime& runtime) {
  Budget& budget = runtime.budget;
  if (op == "==") return equal(a, b, budget);
  if (op == "!=") return !equal(a, b, budget);
  if (op == "in") return contains(b, a, budget);
  if (op == "not in") return !contains(b, a, budget);
  if (a.undefined() || b.undefined()) no_such_operation(op, a, b);
  if (op == "<") return less(a, b, budget);
  if (op == ">") return less(b, a, budget);
  if (op == "<=") return less(a, b, budget) || equal(a, b, budget);
  return less(b, a, budget) || equal(a, b, budget);
}

Value get_attribute(const Value& value, std::string_view name, Runtime& runtime) {
  runtime.budget.step();
  if (value.undefined())
    throw TemplateError(fmt::format("{} is undefined, so it has no {}", in_quotes(std::get<Undefined>(value.storage()).name), in_quotes(name)));
  if (name.starts_with("_")) return Value(Undefined{fmt::format("the private attribute {}", name)});
  if (const Callable* c = value.callable(); c != nullptr && c->attributes != nullptr) {
    const Value* found = c->attributes->find(name);
    return found != nullptr ? *found : undefined_member(value, name);
  }
  if (const Value method = find_method(value, name, runtime); !method.undefined()) return method;
  if (const Dict* d = value.dict())
    if (const Value* found = d->find(name)) return *found;
  return undefined_member(value, name);
}

Value get_item(const Value& value, const Value& key, Runtime& runtime) {
  Budget& budget = runtime.budget;
  budget.step();
  if (value.undefined())
    throw TemplateError(fmt::format("{} is undefined, so it has no items", in_quotes(std::get<Undefined>(value.storage()).name)));
  int64_t index = 0;
  if (const Text* name = key.text()) {
    if (const Dict* d = value.dict(); d != nullptr && !d->is_namespace)
      if (const Value* found = d->find(name->bytes)) return *found;
    return get_attribute(value, name->bytes, runtime);
  }
  if (!key.as_integer(index)) return undefined_member(value, key.undefined() ? "an undefined key" : "an item");
  if (const Sequence* s = value.sequence()) {
    const auto size = static_cast<int64_t>(s->items.size());
    if (index < 0) index += size;
    if (index >= 0 && index < size) return s->items[index];
  } else if (const Text* text = value.text()) {
    budget.step(text->bytes.size() / 64);
    const std::vector<size_t> offsets = code_point_offsets(text->bytes);
    const auto size = static_cast<int64_t>(offsets.size()) - 1;
    if (index < 0) index += size;
    if (index >= 0 && index < size) return Value(slice(*text, offsets[index], offsets[index + 1]));
  }
  return undefined_member(value, fmt::format("item {}", index));
}

Value get_slice(const Value& value, const Value* start, const Value* stop, const Value* step, Runtime& runtime) {
  const auto bound = [](const Value* v, int64_t absent) {
    return v == nullptr || v->none() ? absent : integer_argument(*v, "a bound of a slice");
  };
  const Text* text = value.text();
  const Sequence* sequence = value.sequence();
  if (text == nullptr && sequence == nullptr) throw TemplateError(fmt::format("a {} cannot be sliced", value.type_name()));
  const std::vector<size_t> offsets = text != nullptr ? code_point_offsets(text->bytes) : std::vector<size_t>();
  const auto size = static_cast<int64_t>(text != nullptr ? offsets.size() - 1 : sequence->items.size());
  const int64_t by = std::max(-size - 1, std::min(bound(step, 1), size + 1));
  if (by == 0) throw TemplateError("the step of a slice is 0");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  const auto clamp = [&](int64_t at) { return std::max(low, std::min(at < 0 ? at + size : at, high)); };
  const int64_t first = start == nullptr || start->none() ? (by > 0 ? low : high) : clamp(bound(start, 0));
  const int64_t last = stop == nullptr || stop->none() ? (by > 0 ? high : low) : clamp(bound(stop, 0));
  runtime.budget.grow(text != nullptr ? text->bytes.size() : static_cast<uint64_t>(size) * sizeof(Value));
  Text text_out;
  std::vector<Value> items;
  const int64_t count = by > 0 ? (last > first ? (last - first - 1) / by + 1 : 0) : (first > last ? (first - last - 1) / -by + 1 : 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i * by;
    if (text != nullptr) {
      text_out.append(*text, offsets[at], offsets[at + 1]);
    } else {
      items.push_back(sequence->items[at]);
    }
  }
  if (text != nullptr) return Value(std::move(text_out));
  return sequence->tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

}  // namespace zeroulp::tokenizer::jinja
