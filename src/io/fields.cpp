#include "io/fields.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace zeroulp::io {

Result<Fields> Fields::of(const Json& json, std::string name) {
  if (!json.is_object()) return bad_input(fmt::format("{}: {} is not a JSON object", name, shown(json)));
  return Fields(json, std::move(name));
}

bool Fields::has(const char* key) const {
  const auto it = json_->find(key);
  return it != json_->end() && !it->is_null();
}

const Json& Fields::at(const char* key) const { return json_->at(key); }

Error Fields::error(std::string_view key, std::string_view text) const { return bad_input(fmt::format("{}: {}: {}", name_, key, text)); }

Result<const Json*> Fields::present(const char* key) const {
  if (!has(key)) return error(key, "is missing");
  return &at(key);
}

Result<int64_t> Fields::integer(const char* key, int64_t min, int64_t max) const {
  ZU_TRY_ASSIGN(const Json* value, present(key));
  return integer_of(*value, fmt::format("{}: {}", name_, key), min, max);
}

Result<int64_t> Fields::integer_or(const char* key, int64_t absent, int64_t min, int64_t max) const {
  if (!has(key)) return absent;
  return integer(key, min, max);
}

Result<double> Fields::number(const char* key, double min, double max) const {
  ZU_TRY_ASSIGN(const Json* value, present(key));
  if (!value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max))
    return error(key, fmt::format("{} is not a number from {} to {}", shown(*value), min, max));
  return value->get<double>();
}

Result<double> Fields::positive(const char* key, double max) const {
  ZU_TRY_ASSIGN(const Json* value, present(key));
  if (!value->is_number() || !(value->get<double>() > 0) || value->get<double>() > max)
    return error(key, fmt::format("{} is not a number above 0 and at most {}", shown(*value), max));
  return value->get<double>();
}

Result<double> Fields::positive_or(const char* key, double absent, double max) const {
  if (!has(key)) return absent;
  return positive(key, max);
}

Result<bool> Fields::boolean(const char* key) const {
  ZU_TRY_ASSIGN(const Json* value, present(key));
  if (!value->is_boolean()) return error(key, fmt::format("{} is not true or false", shown(*value)));
  return value->get<bool>();
}

Result<bool> Fields::boolean_or(const char* key, bool absent) const {
  if (!has(key)) return absent;
  return boolean(key);
}

Result<std::string> Fields::string(const char* key) const {
  ZU_TRY_ASSIGN(const Json* value, present(key));
  if (!value->is_string()) return error(key, fmt::format("{} is not a string", shown(*value)));
  return value->get<std::string>();
}

Result<uint64_t> Fields::uint64(const char* key) const {
  ZU_TRY_ASSIGN(const std::string text, string(key));
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  if (const auto parsed = std::from_chars(text.data(), end, number); parsed.ec != std::errc() || parsed.ptr != end)
    return error(key, fmt::format("{} is not a number from 0 to 2^64 - 1 in a string", shown(*json_->find(key))));
  return number;
}

Result<Fields> Fields::object(const char* key) const {
  ZU_TRY_ASSIGN(const Json* value, present(key));
  return of(*value, fmt::format("{}: {}", name_, key));
}

Result<const Json*> Fields::array(const char* key) const {
  ZU_TRY_ASSIGN(const Json* value, present(key));
  if (!value->is_array()) return error(key, fmt::format("{} is not an array", shown(*value)));
  return value;
}

Result<std::vector<int64_t>> Fields::integers(const char* key, int64_t min, int64_t max) const {
  ZU_TRY_ASSIGN(const Json* value, present(key));
  return integers_of(*value, fmt::format("{}: {}", name_, key), min, max);
}

Result<std::vector<std::string>> Fields::strings(const char* key) const {
  ZU_TRY_ASSIGN(const Json* list, array(key));
  std::vector<std::string> out;
  for (const Json& value : *list) {
    if (!value.is_string()) return error(key, fmt::format("its item {}, {}, is not a string", out.size(), shown(value)));
    out.push_back(value.get<std::string>());
  }
  return out;
}

Result<int64_t> integer_of(const Json& value, std::string_view what, int64_t min, int64_t max) {
  // nlohmann-json keeps what is above 2^63 as unsigned; get<int64_t>() would wrap.
  const bool in_range = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX) : value.is_number_integer();
  if (!in_range || value.get<int64_t>() < min || value.get<int64_t>() > max)
    return bad_input(fmt::format("{}: {} is not an integer from {} to {}", what, shown(value), min, max));
  return value.get<int64_t>();
}

Result<std::vector<int64_t>> integers_of(const Json& value, std::string_view what, int64_t min, int64_t max) {
  if (!value.is_array()) return bad_input(fmt::format("{}: {} is not an array", what, shown(value)));
  std::vector<int64_t> out;
  out.reserve(value.size());
  for (const Json& item : value) {
    auto number = integer_of(item, what, min, max);
    if (!number) return bad_input(fmt::format("{} (item {} of the array)", number.error().text, out.size()));
    out.push_back(*number);
  }
  return out;
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

}  // namespace zeroulp::io
