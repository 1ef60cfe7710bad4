#include "io/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace zeroulp::io {
namespace {

// Builds the tree, and stops at the first duplicate key or at too deep a nesting.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  StrictBuilder(int max_depth, size_t bytes) : max_depth_(max_depth), bytes_(bytes) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(v); }
  bool number_unsigned(number_unsigned_t v) override { return put(v); }
  bool number_float(number_float_t v, const string_t&) override { return put(v); }
  bool string(string_t& v) override { return put(std::move(v)); }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Json& object = *stack_.back();
    if (object.contains(name)) return fail(fmt::format("the key {} stands twice in one object", in_quotes(name)));
    slot_ = &object[name];
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& e) override {
    if (position > bytes_) return fail(fmt::format("the text ends at byte {}, before the JSON does", bytes_));
    if (dynamic_cast<const Json::out_of_range*>(&e) != nullptr) return fail(fmt::format("byte {}: the number {} is beyond binary64", position, in_quotes(token)));
    // "[json.exception.NAME.NUMBER] ", of a syntax error "parse error at PLACE: " too, stands before what a reader can use.
    std::string what = e.what();
    what.erase(0, what.starts_with('[') ? what.find("] ") + 2 : 0);
    if (const size_t colon = what.find(": "); what.starts_with("parse error") && colon != std::string::npos) what.erase(0, colon + 2);
    return fail(fmt::format("byte {}: {}", position, what));
  }

  Json root;
  std::string error;

 private:
  bool fail(std::string text) {
    error = std::move(text);
    return false;
  }
  Json* place(Json&& value) {
    if (stack_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (stack_.back()->is_array()) {
      stack_.back()->push_back(std::move(value));
      return &stack_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (static_cast<int>(stack_.size()) >= max_depth_) return fail(fmt::format("nested deeper than {} levels", max_depth_));
    stack_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  const int max_depth_;
  const size_t bytes_;
  std::vector<Json*> stack_;
  Json* slot_ = nullptr;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return bad_input(fmt::format("{}: {} bytes of JSON, more than the limit of {}", name, text.size(), limits.max_bytes));
  // The parser takes a zero byte for the end of the text, whatever stands behind it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) return bad_input(fmt::format("{}: byte {} is zero, which is not JSON", name, zero + 1));
  if (text.empty()) return bad_input(fmt::format("{}: is empty (not a byte of JSON)", name));
  StrictBuilder builder(limits.max_depth, text.size());
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return bad_input(fmt::format("{}: {}", name, builder.error));
  return std::move(builder.root);
}

Result<Json> read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  ZU_TRY_ASSIGN(const std::string text, read_text_file(path, limits.max_bytes));
  return parse_json(text, path.string(), limits);
}

}  // namespace zeroulp::io
