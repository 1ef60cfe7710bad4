// JSON from outside as template values.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tokenizer/jinja/template.h"

namespace zeroulp::tokenizer::jinja {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64, kMaxBytes = 64u << 20;

class ContentBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put(Value()); }
  bool boolean(bool v) override { return put(Value(v)); }
  bool number_integer(number_integer_t v) override { return put(Value(static_cast<int64_t>(v))); }
  bool number_unsigned(number_unsigned_t v) override {
    if (v > static_cast<number_unsigned_t>(INT64_MAX)) return fail(fmt::format("the number {} does not fit in 64 bits", v));
    return put(Value(static_cast<int64_t>(v)));
  }
  bool number_float(number_float_t v, const string_t&) override { return put(Value(v)); }
  bool string(string_t& v) override { return put(Value(Text::from_content(v))); }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }
  bool start_object(std::size_t) override { return open({std::make_shared<Dict>(), {}, {}}); }
  bool start_array(std::size_t) override { return open({nullptr, {}, {}}); }
  bool key(string_t& name) override {
    if (stack_.back().dict->find(name) != nullptr) return fail(fmt::format("the key {} stands twice in one object", in_quotes(name)));
    stack_.back().key = Text::from_content(name);
    return true;
  }
  bool end_object() override { return close(Value(stack_.back().dict)); }
  bool end_array() override { return close(Value::list(std::move(stack_.back().items))); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("is not JSON at byte {}", position));
  }

  Value root;
  std::string error;

 private:
  struct Open {
    std::shared_ptr<Dict> dict;  // null: an array
    std::vector<Value> items;
    Text key;
  };
  bool fail(std::string text) {
    error = std::move(text);
    return false;
  }
  bool put(Value value) {
    if (stack_.empty()) {
      root = std::move(value);
    } else if (stack_.back().dict != nullptr) {
      stack_.back().dict->set(stack_.back().key, std::move(value));
    } else {
      stack_.back().items.push_back(std::move(value));
    }
    return true;
  }
  bool open(Open container) {
    if (stack_.size() >= kMaxDepth) return fail(fmt::format("nested deeper than {} levels", kMaxDepth));
    stack_.push_back(std::move(container));
    return true;
  }
  bool close(Value value) {
    stack_.pop_back();
    return put(std::move(value));
  }

  std::vector<Open> stack_;
};

}  // namespace

Result<Value> parse_content_json(std::string_view json, std::string_view name) {
  if (json.size() > kMaxBytes) return bad_input(fmt::format("{}: {} bytes of JSON, more than the limit of {}", name, json.size(), kMaxBytes));
  ContentBuilder builder;
  if (!Json::sax_parse(json.begin(), json.end(), &builder)) return bad_input(fmt::format("{}: {}", name, builder.error));
  return std::move(builder.root);
}

}  // namespace zeroulp::tokenizer::jinja
