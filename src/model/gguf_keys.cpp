#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "model/gguf_config.h"

namespace zeroulp::model {
namespace {

// 9.999999747378752e-06 as an F32 is what was written as 1e-05.
double shortest(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), static_cast<float>(value));
  double out = 0;
  std::from_chars(text, end.ptr, out);
  return out;
}

}  // namespace

Result<GgufKeys> GgufKeys::of(const io::GgufModel& model) {
  GgufKeys keys;
  keys.model_ = &model;
  ZU_TRY_ASSIGN(keys.architecture_, keys.text("general.architecture"));
  if (keys.architecture_ != "llama" && keys.architecture_ != "qwen2" && keys.architecture_ != "qwen3")
    return keys.error("general.architecture",
                      fmt::format("{} is not supported; llama, qwen2 and qwen3 are", in_quotes(keys.architecture_)));
  return keys;
}

std::string GgufKeys::full(const std::string& key) const {
  return key.starts_with("{arch}.") ? architecture_ + key.substr(6) : key;
}

Error GgufKeys::error(const std::string& key, std::string_view text) const {
  return bad_input(fmt::format("{}: {}: {}", model_->path().string(), full(key), text));
}

Result<int64_t> GgufKeys::integer(const std::string& key) const {
  const io::GgufValue* v = model_->value(full(key));
  if (v == nullptr) return error(key, "is missing");
  std::optional<int64_t> out = v->integer();
  if (v->kind == io::GgufKind::kArray) {
    out = v->integer_at(0);
    for (uint64_t i = 1; i < v->count; ++i)
      if (v->integer_at(i) != out) return error(key, "differs between layers, which is not supported");
  }
  if (!out || *out < 0) return error(key, "is not a non-negative integer");
  return *out;
}

Result<std::optional<int64_t>> GgufKeys::optional_integer(const std::string& key) const {
  if (!has(key)) return std::optional<int64_t>();
  ZU_TRY_ASSIGN(const int64_t value, integer(key));
  return std::optional<int64_t>(value);
}

Result<double> GgufKeys::number(const std::string& key) const {
  const io::GgufValue* v = model_->value(full(key));
  if (v == nullptr) return error(key, "is missing");
  const auto value = v->number();
  if (!value || !std::isfinite(*value)) return error(key, "is not a finite floating-point number");
  return v->kind == io::GgufKind::kF32 ? shortest(*value) : *value;
}

Result<double> GgufKeys::number_or(const std::string& key, double absent) const {
  if (!has(key)) return absent;
  return number(key);
}

Result<bool> GgufKeys::boolean_or(const std::string& key, bool absent) const {
  const io::GgufValue* v = model_->value(full(key));
  if (v == nullptr) return absent;
  const auto value = v->boolean();
  if (!value) return error(key, "is not a boolean");
  return *value;
}

Result<std::string> GgufKeys::text(const std::string& key) const {
  const io::GgufValue* v = model_->value(full(key));
  if (v == nullptr) return error(key, "is missing");
  if (v->kind != io::GgufKind::kString) return error(key, "is not a string");
  if (!is_utf8(v->text)) return error(key, "is not UTF-8");
  return std::string(v->text);
}

Result<std::optional<std::string>> GgufKeys::optional_text(const std::string& key) const {
  if (!has(key)) return std::optional<std::string>();
  ZU_TRY_ASSIGN(std::string value, text(key));
  return std::optional<std::string>(std::move(value));
}

Result<const std::vector<std::string_view>*> GgufKeys::texts(const std::string& key) const {
  const io::GgufValue* v = model_->value(full(key));
  if (v == nullptr) return error(key, "is missing");
  if (v->kind != io::GgufKind::kArray || v->element != io::GgufKind::kString) return error(key, "is not an array of strings");
  return &v->texts;
}

}  // namespace zeroulp::model
