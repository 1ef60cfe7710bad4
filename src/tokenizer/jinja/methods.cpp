// Methods of lists and dicts, and the global functions.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/text.h"
#include "tokenizer/jinja/builtins.h"

namespace zeroulp::tokenizer::jinja {
namespace {

constexpr std::string_view kChanging[] = {"append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"};

[[noreturn]] void refuse_change(std::string_view name, const Value& value) {
  throw TemplateError(fmt::format("{} would change a {}; templates are rendered with values that cannot be changed", name, value.type_name()));
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value list_method(const Value& self, std::string_view name, Runtime& runtime) {
  if (!self.sequence()->tuple && std::find(std::begin(kChanging), std::end(kChanging), name) != std::end(kChanging)) refuse_change(name, self);
  if (name == "copy") throw TemplateError("the list method copy is not supported");
  if (!is_one_of(name, {"index", "count"})) return Value(Undefined{std::string(name)});
  const bool counting = name == "count";
  return Value::function(std::string(name), [self, counting, &runtime](const Arguments& a) {
    a.expect(counting ? "count" : "index", 1, 1);
    int64_t count = 0;
    const auto& items = self.sequence()->items;
    for (size_t i = 0; i < items.size(); ++i) {
      if (!equal(items[i], a.positional.at(0), runtime.budget)) continue;
      if (!counting) return Value(static_cast<int64_t>(i));
      ++count;
    }
    if (!counting) throw TemplateError("index: the value is not in the list");
    return Value(count);
  });
}

Value dict_call(const Value& self, std::string_view name, const Arguments& a, Runtime& runtime) {
  const Dict& dict = *self.dict();
  if (name == "get") {
    a.expect(name, 1, 2);
    const Value* found = a.positional.at(0).text() != nullptr ? dict.find(a.positional[0].text()->bytes) : nullptr;
    return found != nullptr ? *found : a.positional.size() > 1 ? a.positional[1] : Value();
  }
  a.expect(name, 0, 0);
  if (name == "items") return apply_filter("items", self, {}, runtime);
  runtime.budget.grow(dict.items().size() * sizeof(Value));
  std::vector<Value> out;
  for (const auto& [key, value] : dict.items()) {
    if (name == "keys") {
      out.emplace_back(key);
    } else {
      out.push_back(value);
    }
  }
  return Value::list(std::move(out));
}

Value dict_method(const Value& self, std::string_view name, Runtime& runtime) {
  if (is_one_of(name, {"items", "keys", "values", "get"}))
    return Value::function(std::string(name), [self, name = std::string(name), &runtime](const Arguments& a) {
      return dict_call(self, name, a, runtime);
    });
  if (is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"})) refuse_change(name, self);
  if (is_one_of(name, {"copy", "fromkeys"})) throw TemplateError(fmt::format("the dict method {} is not supported", name));
  return Value(Undefined{std::string(name)});
}

Value range(const Arguments& a, Runtime& runtime) {
  a.expect("range", 1, 3);
  const auto number = [&](size_t i) { return integer_argument(a.positional.at(i), "an argument of range"); };
  const int64_t start = a.positional.size() > 1 ? number(0) : 0, stop = number(a.positional.size() > 1 ? 1 : 0);
  const int64_t step = a.positional.size() > 2 ? number(2) : 1;
  if (step == 0) throw TemplateError("the step of range is 0");
  if (std::max({std::abs(start / 2), std::abs(stop / 2), std::abs(step / 2)}) > (int64_t{1} << 40))
    throw TemplateError("the numbers of range are too large");
  const int64_t count = step > 0 ? (stop > start ? (stop - start - 1) / step + 1 : 0) : (start > stop ? (start - stop - 1) / -step + 1 : 0);
  if (count > 100000) throw TemplateError("range is limited to 100000 numbers");  // as jinja2's sandbox has it
  runtime.budget.grow(static_cast<uint64_t>(count) * sizeof(Value));
  std::vector<Value> out;
  for (int64_t i = 0; i < count; ++i) out.emplace_back(start + i * step);
  return Value::list(std::move(out));
}

Value raise_exception(const Arguments& a, Runtime& runtime) {
  a.expect("raise_exception", 1, 1, {"message"});
  throw TemplateError(to_text(a.positional.empty() ? a.named[0].second : a.positional[0], runtime.budget).bytes);
}

Value strftime_now(const Arguments& a, Runtime& runtime) {
  a.expect("strftime_now", 1, 1, {"format"});
  const std::string& format = text_argument(a.positional.empty() ? a.named[0].second : a.positional[0], "the format of strftime_now").bytes;
  const std::time_t now = runtime.now;
  std::tm parts{};
  if ((runtime.utc ? gmtime_r(&now, &parts) : localtime_r(&now, &parts)) == nullptr) throw TemplateError("the time is out of range");
  Text out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.append(std::string_view(format).substr(i, 1));
      continue;
    }
    const char kind = i + 1 < format.size() ? format[++i] : '\0';
    if (kind == '\0' || std::string_view("aAbBdHIjmMpSyY%").find(kind) == std::string_view::npos)
      throw TemplateError(fmt::format("the date format {} is not supported", in_quotes(std::string_view(format).substr(i - 1, 2))));
    const char one[] = {'%', kind, '\0'};
    char buffer[64];
    out.append(std::string_view(buffer, std::strftime(buffer, sizeof buffer, one, &parts)));
  }
  return Value(std::move(out));
}

std::shared_ptr<Dict> dict_of_named(const Arguments& a, std::string_view callee) {
  auto dict = std::make_shared<Dict>();
  if (!a.positional.empty()) {
    const Dict* source = a.positional.size() == 1 ? a.positional[0].dict() : nullptr;
    if (source == nullptr) throw TemplateError(fmt::format("{} takes one dict and named arguments", callee));
    for (const auto& [key, value] : source->items()) dict->set(*key, value);
  }
  for (const auto& [key, value] : a.named) dict->set(Text(key), value);
  return dict;
}

}  // namespace

Value find_method(const Value& value, std::string_view name, Runtime& runtime) {
  if (value.text() != nullptr) {
    if (!has_text_method(name)) return Value(Undefined{std::string(name)});
    return Value::function(std::string(name), [self = std::get<std::shared_ptr<const Text>>(value.storage()), name = std::string(name),
                                               &runtime](const Arguments& a) { return call_text_method(name, self, a, runtime); });
  }
  if (value.sequence() != nullptr) return list_method(value, name, runtime);
  if (value.dict() != nullptr && !value.dict()->is_namespace) return dict_method(value, name, runtime);
  return Value(Undefined{std::string(name)});
}

std::shared_ptr<Dict> make_globals(Runtime& runtime, std::vector<std::shared_ptr<Dict>>& namespaces) {
  auto globals = std::make_shared<Dict>();
  const auto add = [&](const char* name, std::function<Value(const Arguments&)> call) {
    globals->set(Text(name), Value::function(name, std::move(call)));
  };
  add("range", [&runtime](const Arguments& a) { return range(a, runtime); });
  add("raise_exception", [&runtime](const Arguments& a) { return raise_exception(a, runtime); });
  add("strftime_now", [&runtime](const Arguments& a) { return strftime_now(a, runtime); });
  add("dict", [](const Arguments& a) { return Value(dict_of_named(a, "dict")); });
  add("namespace", [&runtime, &namespaces](const Arguments& a) {
    auto dict = dict_of_named(a, "namespace");
    for (const auto& [key, value] : dict->items())
      if (key->bytes.starts_with("_")) throw TemplateError(fmt::format("the attribute {} is private", in_quotes(key->bytes)));
    dict->is_namespace = true;
    runtime.budget.grow(256);
    namespaces.push_back(dict);
    return Value(dict);
  });
  return globals;
}

const Value* find_global(const Dict& globals, std::string_view name) {
  if (const Value* found = globals.find(name)) return found;
  for (std::string_view missing : {"cycler", "joiner", "lipsum", "varargs", "kwargs", "self", "super"})
    if (name == missing) throw TemplateError(fmt::format("{} is not supported", name));
  return nullptr;
}

}  // namespace zeroulp::tokenizer::jinja
