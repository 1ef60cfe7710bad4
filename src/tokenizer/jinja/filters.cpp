// Filters and tests, by name.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tokenizer/jinja/builtins.h"

namespace zeroulp::tokenizer::jinja {
namespace {

using Filter = Value (*)(const Value&, const Arguments&, Runtime&);
using Test = bool (*)(const Value&, const Arguments&, Runtime&);

Value with_defaults(const Value& v, const Arguments& a, Runtime&) {
  a.expect("default", 0, 2, {"default_value", "boolean"});
  const Value* fallback = a.get(0, "default_value");
  const Value* falsy = a.get(1, "boolean");
  if (!v.undefined() && !(falsy != nullptr && falsy->truth() && !v.truth())) return v;
  return fallback != nullptr ? *fallback : Value(Text());
}

Value length(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("length", 0, 0);
  if (v.text() != nullptr) return Value(static_cast<int64_t>(length_of(v.text()->bytes)));
  if (v.sequence() != nullptr) return Value(static_cast<int64_t>(v.sequence()->items.size()));
  if (v.dict() != nullptr || v.undefined()) return Value(static_cast<int64_t>(iterate(v, r.budget).size()));
  throw TemplateError(fmt::format("a {} has no length", v.type_name()));
}

Value trim(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("trim", 0, 1, {"chars"});
  return Value(strip_text(to_text(v, r.budget), a.get(0, "chars"), true, true, r.budget));
}

template <const char* How>
Value cased(const Value& v, const Arguments& a, Runtime& r) {
  a.expect(How, 0, 0);
  return Value(change_case(to_text(v, r.budget), How));
}
constexpr char kUpper[] = "upper", kLower[] = "lower", kTitle[] = "title_filter", kCapitalize[] = "capitalize";

Value to_json_filter(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("tojson", 0, 4, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  const auto given = [&](size_t at, std::string_view name) {
    const Value* value = a.get(at, name);
    return value == nullptr || value->none() ? nullptr : value;
  };
  if (const Value* ascii = given(0, "ensure_ascii")) style.ascii = ascii->truth();
  if (const Value* indent = given(1, "indent")) {
    style.indent = static_cast<int>(std::max<int64_t>(0, std::min<int64_t>(integer_argument(*indent, "the indent of tojson"), 64)));
    style.item_separator.pop_back();  // no space before a line end
  }
  if (const Value* separators = given(2, "separators")) {
    const Sequence* s = separators->sequence();
    if (s == nullptr || s->items.size() != 2) throw TemplateError("the separators of tojson must be two texts");
    style.item_separator = text_argument(s->items[0], "a separator of tojson").bytes;
    style.key_separator = text_argument(s->items[1], "a separator of tojson").bytes;
  }
  if (const Value* sort = given(3, "sort_keys")) style.sort_keys = sort->truth();
  return Value(to_json(v, style, r.budget));
}

// The item's member that attribute="a.b" names.
Value member_of(const Value& item, const Value& path, Runtime& r) {
  if (path.integer() != nullptr) return get_item(item, path, r);
  const std::string& name = text_argument(path, "an attribute").bytes;
  Value value = item;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    value = get_item(value, Value(Text(std::string_view(name).substr(at, end - at))), r);
    at = end + 1;
  }
  return value;
}

Value join(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("join", 0, 2, {"d", "attribute"});
  std::vector<Value> items = iterate(v, r.budget);
  if (const Value* attribute = a.get(1, "attribute"); attribute != nullptr && !attribute->none())
    for (Value& item : items) item = member_of(item, *attribute, r);
  const Value* separator = a.get(0, "d");
  return Value(join_text(items, separator == nullptr ? Text() : text_argument(*separator, "the separator of join"), false, r.budget));
}

Value replace(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("replace", 2, 3, {"old", "new", "count"});
  const Value* count = a.get(2, "count");
  const Value *from = a.get(0, "old"), *to = a.get(1, "new");
  if (from == nullptr || to == nullptr) throw TemplateError("replace needs two texts");
  return Value(replace_text(to_text(v, r.budget), to_text(*from, r.budget), to_text(*to, r.budget),
                            count == nullptr || count->none() ? -1 : integer_argument(*count, "the count of replace"), r.budget));
}

Value first(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("first", 0, 0);
  const std::vector<Value> items = iterate(v, r.budget);
  return items.empty() ? Value(Undefined{"first of an empty sequence"}) : items.front();
}
Value last(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("last", 0, 0);
  const std::vector<Value> items = iterate(v, r.budget);
  return items.empty() ? Value(Undefined{"last of an empty sequence"}) : items.back();
}
Value list(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("list", 0, 0);
  return Value::list(iterate(v, r.budget));
}
Value string(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("string", 0, 0);
  return Value(to_text(v, r.budget));
}

Value reverse(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("reverse", 0, 0);
  const Value minus_one(int64_t{-1});
  if (v.text() != nullptr) return get_slice(v, nullptr, nullptr, &minus_one, r);
  std::vector<Value> items = iterate(v, r.budget);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Value to_integer(const Value& v, const Arguments& a, Runtime&) {
  a.expect("int", 0, 1, {"default"});
  int64_t i = 0;
  if (v.as_integer(i)) return Value(i);
  const Value* fallback = a.get(0, "default");
  const Value otherwise = fallback != nullptr ? *fallback : Value(int64_t{0});
  double x = 0;
  if (v.real() != nullptr) {
    x = *v.real();
  } else if (v.text() != nullptr) {
    const std::string& s = v.text()->bytes;
    const size_t begin = s.find_first_not_of(" \t\n\r\f\v"), end = s.find_last_not_of(" \t\n\r\f\v");
    if (begin == std::string::npos) return otherwise;
    const std::string word = s.substr(begin, end + 1 - begin);
    if (word.find_first_not_of("0123456789+-.eE") != std::string::npos) return otherwise;
    char* stop = nullptr;
    errno = 0;
    const long long whole = std::strtoll(word.c_str(), &stop, 10);
    if (*stop == '\0' && errno == 0) return Value(static_cast<int64_t>(whole));
    x = std::strtod(word.c_str(), &stop);
    if (*stop != '\0') return otherwise;
  } else {
    return otherwise;
  }
  if (!(std::fabs(x) < 9.2e18)) throw TemplateError("an integer does not fit in 64 bits");
  return Value(static_cast<int64_t>(x));
}

Value to_real(const Value& v, const Arguments& a, Runtime&) {
  a.expect("float", 0, 1, {"default"});
  double x = 0;
  if (v.as_number(x)) return Value(x);
  const Value* fallback = a.get(0, "default");
  const Value otherwise = fallback != nullptr ? *fallback : Value(0.0);
  if (v.text() == nullptr || v.text()->bytes.empty()) return otherwise;
  char* stop = nullptr;
  x = std::strtod(v.text()->bytes.c_str(), &stop);
  const std::string_view rest = stop;
  return rest.find_first_not_of(" \t\n\r\f\v") == std::string_view::npos && stop != v.text()->bytes.c_str() ? Value(x) : otherwise;
}

Value absolute(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("abs", 0, 0);
  double x = 0;
  if (!v.as_number(x)) throw TemplateError(fmt::format("abs of a {}", v.type_name()));
  return x < 0 ? unary_operation("-", v, r) : unary_operation("+", v, r);
}

Value round(const Value& v, const Arguments& a, Runtime&) {
  a.expect("round", 0, 2, {"precision", "method"});
  double x = 0;
  if (!v.as_number(x)) throw TemplateError(fmt::format("round of a {}", v.type_name()));
  const Value *digits = a.get(0, "precision"), *method = a.get(1, "method");
  const int64_t places = digits == nullptr ? 0 : integer_argument(*digits, "the precision of round");
  const std::string how = method == nullptr ? "common" : text_argument(*method, "the method of round").bytes;
  if (places != 0) throw TemplateError("round to decimal places is not supported");
  if (how == "ceil") return Value(std::ceil(x));
  if (how == "floor") return Value(std::floor(x));
  if (how != "common") throw TemplateError(fmt::format("the method {} of round is not supported", in_quotes(how)));
  const double below = std::floor(x), part = x - below;  // halves to the even neighbour, as Python does
  return Value(part > 0.5 || (part == 0.5 && std::fmod(below, 2) != 0) ? below + 1 : below);
}

Value items_of(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("items", 0, 0);
  std::vector<Value> out;
  if (v.undefined()) return Value::list({});
  if (v.dict() == nullptr || v.dict()->is_namespace) throw TemplateError(fmt::format("items of a {}", v.type_name()));
  r.budget.grow(v.dict()->items().size() * 4 * sizeof(Value));
  for (const auto& [key, value] : v.dict()->items()) out.push_back(Value::tuple({Value(key), value}));
  return Value::list(std::move(out));
}

// What sort, unique, min and max compare: the attribute, texts in lower case unless case_sensitive.
Value sort_key(const Value& item, const Value* attribute, bool case_sensitive, Runtime& r) {
  Value key = attribute != nullptr && !attribute->none() ? member_of(item, *attribute, r) : item;
  if (!case_sensitive && key.text() != nullptr) return Value(change_case(*key.text(), "lower"));
  return key;
}

bool truth_of(const Value* value) { return value != nullptr && value->truth(); }

std::vector<Value> sorted(std::vector<Value> items, const std::vector<Value>& keys, bool backwards, Runtime& r) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return backwards ? less(keys[b], keys[a], r.budget) : less(keys[a], keys[b], r.budget);
  });
  std::vector<Value> out;
  for (size_t i : order) out.push_back(std::move(items[i]));
  return out;
}

Value sort(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("sort", 0, 3, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> items = iterate(v, r.budget), keys;
  for (const Value& item : items) keys.push_back(sort_key(item, a.get(2, "attribute"), truth_of(a.get(1, "case_sensitive")), r));
  return Value::list(sorted(std::move(items), keys, truth_of(a.get(0, "reverse")), r));
}

Value dictsort(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("dictsort", 0, 3, {"case_sensitive", "by", "reverse"});
  const Value* by = a.get(1, "by");
  const std::string which = by == nullptr ? "key" : text_argument(*by, "the argument by of dictsort").bytes;
  if (which != "key" && which != "value") throw TemplateError("dictsort is by key or by value");
  const Value pairs = items_of(v, {}, r);
  std::vector<Value> items = pairs.sequence()->items, keys;
  for (const Value& item : items)
    keys.push_back(sort_key(item.sequence()->items[which == "key" ? 0 : 1], nullptr, truth_of(a.get(0, "case_sensitive")), r));
  return Value::list(sorted(std::move(items), keys, truth_of(a.get(2, "reverse")), r));
}

Value unique(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("unique", 0, 2, {"case_sensitive", "attribute"});
  std::vector<Value> out, keys;
  for (const Value& item : iterate(v, r.budget)) {
    Value key = sort_key(item, a.get(1, "attribute"), truth_of(a.get(0, "case_sensitive")), r);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key, r.budget); })) continue;
    keys.push_back(std::move(key));
    out.push_back(item);
  }
  return Value::list(std::move(out));
}

template <bool Largest>
Value extreme(const Value& v, const Arguments& a, Runtime& r) {
  a.expect(Largest ? "max" : "min", 0, 2, {"case_sensitive", "attribute"});
  Value best(Undefined{"the extreme of an empty sequence"}), best_key;
  for (const Value& item : iterate(v, r.budget)) {
    Value key = sort_key(item, a.get(1, "attribute"), truth_of(a.get(0, "case_sensitive")), r);
    if (best.undefined() || (Largest ? less(best_key, key, r.budget) : less(key, best_key, r.budget))) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

Value sum(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("sum", 0, 2, {"attribute", "start"});
  const Value *attribute = a.get(0, "attribute"), *start = a.get(1, "start");
  Value total = start != nullptr ? *start : Value(int64_t{0});
  for (const Value& item : iterate(v, r.budget))
    total = binary_operation("+", total, attribute != nullptr && !attribute->none() ? member_of(item, *attribute, r) : item, r);
  return total;
}

// The arguments behind the first `count` positional ones.
Arguments behind(const Arguments& a, size_t count) {
  Arguments rest;
  if (a.positional.size() > count) rest.positional.assign(a.positional.begin() + count, a.positional.end());
  rest.named = a.named;
  return rest;
}

Value map(const Value& v, const Arguments& a, Runtime& r) {
  std::vector<Value> out;
  if (a.positional.empty()) {
    a.expect("map", 1, 0, {"attribute", "default"});
    const Value *attribute = a.get(0, "attribute"), *fallback = a.get(1, "default");
    if (attribute == nullptr) throw TemplateError("map needs a filter or an attribute");
    for (const Value& item : iterate(v, r.budget)) {
      Value member = member_of(item, *attribute, r);
      out.push_back(member.undefined() && fallback != nullptr ? *fallback : std::move(member));
    }
    return Value::list(std::move(out));
  }
  const std::string name = text_argument(a.positional[0], "the filter of map").bytes;
  for (const Value& item : iterate(v, r.budget)) out.push_back(apply_filter(name, item, behind(a, 1), r));
  return Value::list(std::move(out));
}

Value select_items(const Value& v, const Arguments& a, Runtime& r, bool wanted, bool by_attribute) {
  const size_t skip = by_attribute ? 1 : 0;
  if (a.positional.size() < skip) throw TemplateError("selectattr and rejectattr need an attribute");
  std::vector<Value> out;
  for (const Value& item : iterate(v, r.budget)) {
    const Value subject = by_attribute ? member_of(item, a.positional[0], r) : item;
    const bool holds = a.positional.size() == skip ? subject.truth()
                                                   : apply_test(text_argument(a.positional[skip], "the test").bytes, subject,
                                                                behind(a, skip + 1), r);
    if (holds == wanted) out.push_back(item);
  }
  return Value::list(std::move(out));
}
template <bool Wanted, bool ByAttribute>
Value select(const Value& v, const Arguments& a, Runtime& r) {
  return select_items(v, a, r, Wanted, ByAttribute);
}

Value indent(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("indent", 0, 3, {"width", "first", "blank"});
  const Value* width = a.get(0, "width");
  Text margin;
  if (width != nullptr && width->text() != nullptr) {
    margin = *width->text();
  } else {
    margin = Text(std::string(width == nullptr ? 4 : std::max<int64_t>(0, std::min<int64_t>(integer_argument(*width, "the width of indent"), 256)), ' '));
  }
  Text source = to_text(v, r.budget);
  source.append("\n");
  const std::vector<Value> lines = split_lines(source, false, r.budget);
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    r.budget.grow(margin.bytes.size() + lines[i].text()->bytes.size() + 1);
    if (i > 0) out.append("\n");
    const bool wanted = i == 0 ? truth_of(a.get(1, "first")) : truth_of(a.get(2, "blank")) || !lines[i].text()->bytes.empty();
    if (wanted) out.append(margin);
    out.append(*lines[i].text());
  }
  return Value(std::move(out));
}

Value format(const Value& v, const Arguments& a, Runtime& r) {
  if (!a.named.empty()) throw TemplateError("format with names is not supported");
  return Value(format_percent(to_text(v, r.budget), a.positional, r));
}

struct FilterRow {
  std::string_view name;
  Filter run;
};
constexpr FilterRow kFilters[] = {
    {"abs", absolute},         {"capitalize", cased<kCapitalize>}, {"count", length},         {"d", with_defaults},
    {"default", with_defaults}, {"dictsort", dictsort},            {"first", first},          {"float", to_real},
    {"format", format},        {"indent", indent},                 {"int", to_integer},       {"items", items_of},
    {"join", join},            {"last", last},                     {"length", length},        {"list", list},
    {"lower", cased<kLower>},  {"map", map},                       {"max", extreme<true>},    {"min", extreme<false>},
    {"reject", select<false, false>}, {"rejectattr", select<false, true>}, {"replace", replace}, {"reverse", reverse},
    {"round", round},          {"select", select<true, false>},    {"selectattr", select<true, true>}, {"sort", sort},
    {"string", string},        {"sum", sum},                       {"title", cased<kTitle>},  {"tojson", to_json_filter},
    {"trim", trim},            {"unique", unique},                 {"upper", cased<kUpper>},
};

template <const char* Op>
bool comparing(const Value& v, const Arguments& a, Runtime& r) {
  a.expect(Op, 1, 1);
  return compare(Op, v, a.positional.at(0), r);
}
constexpr char kEq[] = "==", kNe[] = "!=", kLt[] = "<", kLe[] = "<=", kGt[] = ">", kGe[] = ">=", kIn[] = "in";

template <int64_t Divisor, int64_t Rest>
bool parity(const Value& v, const Arguments&, Runtime& r) {
  return equal(binary_operation("%", v, Value(Divisor), r), Value(Rest), r.budget);
}

bool same_object(const Value& v, const Arguments& a, Runtime& r) {
  a.expect("sameas", 1, 1);
  const Value& w = a.positional.at(0);
  if (v.storage().index() != w.storage().index()) return false;
  if (v.dict() != nullptr || v.callable() != nullptr || v.sequence() != nullptr)
    return v.dict() == w.dict() && v.callable() == w.callable() && v.sequence() == w.sequence();
  return equal(v, w, r.budget);
}

struct TestRow {
  std::string_view name;
  Test run;
};
constexpr TestRow kTests[] = {
    {"defined", [](const Value& v, const Arguments&, Runtime&) { return !v.undefined(); }},
    {"undefined", [](const Value& v, const Arguments&, Runtime&) { return v.undefined(); }},
    {"none", [](const Value& v, const Arguments&, Runtime&) { return v.none(); }},
    {"boolean", [](const Value& v, const Arguments&, Runtime&) { return v.boolean() != nullptr; }},
    {"true", [](const Value& v, const Arguments&, Runtime&) { return v.boolean() != nullptr && *v.boolean(); }},
    {"false", [](const Value& v, const Arguments&, Runtime&) { return v.boolean() != nullptr && !*v.boolean(); }},
    {"integer", [](const Value& v, const Arguments&, Runtime&) { return v.integer() != nullptr; }},
    {"float", [](const Value& v, const Arguments&, Runtime&) { return v.real() != nullptr; }},
    {"number", [](const Value& v, const Arguments&, Runtime&) { double x = 0; return v.as_number(x); }},
    {"string", [](const Value& v, const Arguments&, Runtime&) { return v.text() != nullptr; }},
    {"mapping", [](const Value& v, const Arguments&, Runtime&) { return v.dict() != nullptr && !v.dict()->is_namespace; }},
    {"sequence", [](const Value& v, const Arguments&, Runtime&) {
       return v.text() != nullptr || v.sequence() != nullptr || v.undefined() || (v.dict() != nullptr && !v.dict()->is_namespace);
     }},
    {"iterable", [](const Value& v, const Arguments&, Runtime&) {
       return v.text() != nullptr || v.sequence() != nullptr || v.undefined() || (v.dict() != nullptr && !v.dict()->is_namespace);
     }},
    {"callable", [](const Value& v, const Arguments&, Runtime&) { return v.callable() != nullptr; }},
    {"odd", parity<2, 1>},
    {"even", parity<2, 0>},
    {"divisibleby", [](const Value& v, const Arguments& a, Runtime& r) {
       a.expect("divisibleby", 1, 1);
       return equal(binary_operation("%", v, a.positional.at(0), r), Value(int64_t{0}), r.budget);
     }},
    {"sameas", same_object},
    {"eq", comparing<kEq>}, {"equalto", comparing<kEq>}, {"ne", comparing<kNe>}, {"lt", comparing<kLt>}, {"lessthan", comparing<kLt>},
    {"le", comparing<kLe>}, {"gt", comparing<kGt>}, {"greaterthan", comparing<kGt>}, {"ge", comparing<kGe>}, {"in", comparing<kIn>},
};

}  // namespace

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments, Runtime& runtime) {
  const auto row = std::find_if(std::begin(kFilters), std::end(kFilters), [&](const FilterRow& f) { return f.name == name; });
  if (row == std::end(kFilters)) throw TemplateError(fmt::format("the filter {} is not supported", in_quotes(name)));
  runtime.budget.step();
  return row->run(input, arguments, runtime);
}

bool apply_test(std::string_view name, const Value& input, const Arguments& arguments, Runtime& runtime) {
  const auto row = std::find_if(std::begin(kTests), std::end(kTests), [&](const TestRow& t) { return t.name == name; });
  if (row == std::end(kTests)) throw TemplateError(fmt::format("the test {} is not supported", in_quotes(name)));
  runtime.budget.step();
  return row->run(input, arguments, runtime);
}

}  // namespace zeroulp::tokenizer::jinja
