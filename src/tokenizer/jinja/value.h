// Values of the template language: what Python has them be, as far as chat templates use them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/jinja/text.h"

namespace zeroulp::tokenizer::jinja {

// Thrown inside this folder alone, where an error may end an expression at any depth; template.cpp turns it into a Result.
struct TemplateError : std::runtime_error {
  explicit TemplateError(const std::string& what, int at_line = 0) : std::runtime_error(what), line(at_line) {}
  int line;  // 0: not known yet
};

class Value;
class Budget;
struct Arguments;

struct Undefined {
  std::string name;  // how the template got it, for messages
};
struct None {};
struct Sequence {
  std::vector<Value> items;
  bool tuple = false;
};

// A dict in order of insertion, keys being texts (JSON has no others). Namespaces are dicts that `set` may change.
class Dict {
 public:
  const Value* find(std::string_view key) const;
  void set(const Text& key, Value value);
  const std::vector<std::pair<std::shared_ptr<const Text>, Value>>& items() const { return items_; }
  void clear();
  bool is_namespace = false;

 private:
  std::vector<std::pair<std::shared_ptr<const Text>, Value>> items_;
  std::unordered_map<std::string, size_t, StringHash, std::equal_to<>> index_;
};

struct Callable {
  std::string name;
  std::function<Value(const Arguments&)> call;
  std::shared_ptr<const Dict> attributes;  // of the loop object, say; null: none
};

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const Sequence>,
                               std::shared_ptr<Dict>, std::shared_ptr<const Callable>>;
  Value() : storage_(None{}) {}
  Value(Undefined v) : storage_(std::move(v)) {}
  Value(None) : storage_(None{}) {}
  Value(bool v) : storage_(v) {}
  Value(int64_t v) : storage_(v) {}
  Value(double v) : storage_(v) {}
  Value(Text v) : storage_(std::make_shared<const Text>(std::move(v))) {}
  Value(std::shared_ptr<const Text> v) : storage_(std::move(v)) {}
  Value(std::shared_ptr<Dict> v) : storage_(std::move(v)) {}
  Value(std::shared_ptr<const Callable> v) : storage_(std::move(v)) {}
  Value(const char*) = delete;
  static Value list(std::vector<Value> items) { return Value(std::make_shared<const Sequence>(Sequence{std::move(items), false})); }
  static Value tuple(std::vector<Value> items) { return Value(std::make_shared<const Sequence>(Sequence{std::move(items), true})); }
  static Value function(std::string name, std::function<Value(const Arguments&)> call) {
    return Value(std::make_shared<const Callable>(Callable{std::move(name), std::move(call), nullptr}));
  }

  bool undefined() const { return std::holds_alternative<Undefined>(storage_); }
  bool none() const { return std::holds_alternative<None>(storage_); }
  const bool* boolean() const { return std::get_if<bool>(&storage_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&storage_); }
  const double* real() const { return std::get_if<double>(&storage_); }
  const Text* text() const { return pointee<const Text>(); }
  const Sequence* sequence() const { return pointee<const Sequence>(); }
  Dict* dict() const { return pointee<Dict>(); }
  const Callable* callable() const { return pointee<const Callable>(); }
  const Storage& storage() const { return storage_; }
  // Python's own name of the type, for messages.
  std::string_view type_name() const;
  bool truth() const;
  // True, False and integers, as Python lets a bool stand for 0 or 1.
  bool as_integer(int64_t& out) const;
  bool as_number(double& out) const;

 private:
  explicit Value(std::shared_ptr<const Sequence> v) : storage_(std::move(v)) {}
  template <class T>
  T* pointee() const {
    const auto* p = std::get_if<std::shared_ptr<T>>(&storage_);
    return p == nullptr ? nullptr : p->get();
  }
  Storage storage_;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at `index` or called `name`; null if absent.
  const Value* get(size_t index, std::string_view name) const;
  // Refuses more than `most` positional arguments and names that are not among `names`.
  void expect(std::string_view callee, size_t least, size_t most, std::initializer_list<std::string_view> names = {}) const;
};

// What rendering may cost. A template is data from a stranger.
class Budget {
 public:
  struct Limits {
    uint64_t steps = 2'000'000;        // evaluated nodes, loop rounds, units of 64 bytes looked at
    uint64_t bytes = 256ull << 20;     // of all texts and lists made on the way
    uint64_t output = 16ull << 20;     // of the rendered prompt
    int depth = 400;                   // nested evaluation, macro calls included
  };
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(uint64_t count = 1);
  // Before making `count` more bytes.
  void grow(uint64_t count);
  void output(uint64_t size) const;

  class Nesting {
   public:
    explicit Nesting(Budget& budget);
    ~Nesting() { --budget_.depth_; }
    Nesting(const Nesting&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  uint64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
};

// str() and repr() of Python.
Text to_text(const Value& value, Budget& budget);
Text to_repr(const Value& value, Budget& budget);
std::string repr_of_real(double value);

struct JsonStyle {
  int indent = -1;  // negative: one line
  bool sort_keys = false, ascii = false;
  std::string item_separator = ", ", key_separator = ": ";
};
// json.dumps() of Python.
Text to_json(const Value& value, const JsonStyle& style, Budget& budget);

// ==, and the order of < (throws for types that Python does not order).
bool equal(const Value& a, const Value& b, Budget& budget);
bool less(const Value& a, const Value& b, Budget& budget);
// `item in container`.
bool contains(const Value& container, const Value& item, Budget& budget);

// What a for loop goes through: items of a sequence, keys of a dict, characters of a text, nothing of undefined.
std::vector<Value> iterate(const Value& value, Budget& budget);

}  // namespace zeroulp::tokenizer::jinja
