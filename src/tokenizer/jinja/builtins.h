// What the language brings along: filters, tests, methods and functions. All throw TemplateError, naming what is missing.
#pragma once

#include <string_view>

#include "tokenizer/jinja/value.h"

namespace zeroulp::tokenizer::jinja {

struct Runtime {
  Budget budget;
  int64_t now = 0;      // seconds since 1970, for strftime_now
  bool utc = false;     // show it in UTC, not in local time
};

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments, Runtime& runtime);
bool apply_test(std::string_view name, const Value& input, const Arguments& arguments, Runtime& runtime);
// A function or namespace object that every template can use; null if there is none of this name.
const Value* find_global(const Dict& globals, std::string_view name);
std::shared_ptr<Dict> make_globals(Runtime& runtime, std::vector<std::shared_ptr<Dict>>& namespaces);

// value.name and value[key], as jinja2 looks them up; undefined if there is no such thing.
Value get_attribute(const Value& value, std::string_view name, Runtime& runtime);
Value get_item(const Value& value, const Value& key, Runtime& runtime);
Value get_slice(const Value& value, const Value* start, const Value* stop, const Value* step, Runtime& runtime);
// The method of a text, list or dict; undefined if the type has none of this name.
Value find_method(const Value& value, std::string_view name, Runtime& runtime);

Value binary_operation(std::string_view op, const Value& a, const Value& b, Runtime& runtime);
Value unary_operation(std::string_view op, const Value& a, Runtime& runtime);
bool compare(std::string_view op, const Value& a, const Value& b, Runtime& runtime);

// Methods of texts; also used by the filters of the same names.
bool has_text_method(std::string_view name);
Value call_text_method(std::string_view name, const std::shared_ptr<const Text>& self, const Arguments& arguments, Runtime& runtime);
Text strip_text(const Text& text, const Value* characters, bool left, bool right, Budget& budget);
Text replace_text(const Text& text, const Text& from, const Text& to, int64_t most, Budget& budget);
Text change_case(const Text& text, std::string_view how);
std::vector<Value> split_lines(const Text& text, bool keep_ends, Budget& budget);
Text join_text(const std::vector<Value>& items, const Text& separator, bool texts_only, Budget& budget);
Text format_percent(const Text& format, const std::vector<Value>& values, Runtime& runtime);
int64_t integer_argument(const Value& value, std::string_view what);
const Text& text_argument(const Value& value, std::string_view what);

}  // namespace zeroulp::tokenizer::jinja
