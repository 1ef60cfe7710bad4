// Walks the tree of a template.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/template.h"

namespace zeroulp::tokenizer::jinja {
namespace {

// Names of one block; a block sees those of the blocks around it, and sets only its own.
struct Scope {
  std::shared_ptr<Scope> outer;
  std::unordered_map<std::string, Value, StringHash, std::equal_to<>> names;
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow { kOn, kBreak, kContinue };

class Interpreter {
 public:
  Interpreter(const Dict& variables, const RenderOptions& options)
      : runtime_{Budget(options.limits), options.now, options.utc}, globals_(make_globals(runtime_, namespaces_)) {
    auto outermost = std::make_shared<Scope>();
    for (const auto& [key, value] : variables.items()) outermost->names.insert_or_assign(key->bytes, value);
    scope_ = std::make_shared<Scope>(Scope{outermost, {}});
  }
  // A namespace may hold itself; cut the knots.
  ~Interpreter() {
    for (auto& dict : namespaces_) dict->clear();
  }

  Text run(const Block& block) {
    Text out;
    out_ = &out;
    execute(block);
    return out;
  }

 private:
  Budget& budget() { return runtime_.budget; }

  // Runs body with a fresh scope inside `outer`.
  template <class Body>
  auto inside(ScopePtr outer, Body&& body) {
    ScopePtr saved = std::exchange(scope_, std::make_shared<Scope>(Scope{std::move(outer), {}}));
    struct Restore {
      Interpreter& self;
      ScopePtr& saved;
      ~Restore() { self.scope_ = std::move(saved); }
    } restore{*this, saved};
    return body();
  }
  // What body prints.
  template <class Body>
  Text captured(Body&& body) {
    Text out;
    struct Restore {
      Text*& slot;
      Text* saved;
      ~Restore() { slot = saved; }
    } restore{out_, std::exchange(out_, &out)};
    body();
    return out;
  }

  void print(const Text& text) {
    out_->append(text);
    budget().step(1 + text.bytes.size() / 64);
    budget().output(out_->bytes.size());
  }

  Flow execute(const Block& block) {
    for (const auto& statement : block)
      if (const Flow flow = execute(*statement); flow != Flow::kOn) return flow;
    return Flow::kOn;
  }

  Flow execute(const Statement& s) {
    try {
      const Budget::Nesting nesting(budget());
      budget().step();
      return dispatch(s);
    } catch (TemplateError& e) {
      if (e.line == 0) e.line = s.line;
      throw;
    }
  }

  Flow dispatch(const Statement& s) {
    switch (s.kind) {
      case Statement::kData: print(s.data); return Flow::kOn;
      case Statement::kPrint: print(printed(*s.value)); return Flow::kOn;
      case Statement::kIf: return if_(s);
      case Statement::kFor: return for_(s);
      case Statement::kSet: set(s); return Flow::kOn;
      case Statement::kMacro: scope_->names.insert_or_assign(s.name, macro(s.name, s)); return Flow::kOn;
      case Statement::kWith: return with(s);
      case Statement::kFilter: print(to_text(through_chain(*s.filter, Value(block_text(s.body))), budget())); return Flow::kOn;
      case Statement::kCall: print(to_text(call(*s.value, &s), budget())); return Flow::kOn;
      case Statement::kGroup: return inside(scope_, [&] { return execute(s.body); });
      case Statement::kBreak: return Flow::kBreak;
      case Statement::kContinue: return Flow::kContinue;
    }
    return Flow::kOn;
  }

  Text printed(const Expression& e) {
    // Elsewhere "safe" would make jinja2 escape what is joined to it.
    if (e.kind == Expression::kFilter && e.name == "safe") return to_text(evaluate(*e.operands[0]), budget());
    return to_text(evaluate(e), budget());
  }

  Text block_text(const Block& block) {
    return captured([&] { inside(scope_, [&] { return execute(block); }); });
  }

  Flow if_(const Statement& s) {
    for (const auto& [test, body] : s.branches)
      if (evaluate(*test).truth()) return execute(body);
    return execute(s.otherwise);
  }

  Flow with(const Statement& s) {
    std::vector<Value> values;
    for (const ExpressionPtr& e : s.values) values.push_back(evaluate(*e));
    return inside(scope_, [&] {
      for (size_t i = 0; i < values.size(); ++i) scope_->names.insert_or_assign(s.targets[i]->name, std::move(values[i]));
      return execute(s.body);
    });
  }

  void set(const Statement& s) {
    if (s.value) return assign(s.targets, evaluate(*s.value));
    const Value value(block_text(s.body));
    assign(s.targets, s.filter ? through_chain(*s.filter, value) : value);
  }

  void assign(const std::vector<ExpressionPtr>& targets, Value value) {
    if (targets.size() == 1) return assign(*targets[0], std::move(value));
    const std::vector<Value> parts = iterate(value, budget());
    if (parts.size() != targets.size())
      throw TemplateError(fmt::format("{} values for {} names", parts.size(), targets.size()));
    for (size_t i = 0; i < parts.size(); ++i) assign(*targets[i], parts[i]);
  }

  void assign(const Expression& target, Value value) {
    if (target.kind == Expression::kName) {
      scope_->names.insert_or_assign(target.name, std::move(value));
      return;
    }
    const Value object = evaluate(*target.operands[0]);
    if (object.dict() == nullptr || !object.dict()->is_namespace)
      throw TemplateError(fmt::format("{} is no namespace; attributes of nothing else can be set", in_quotes(target.operands[0]->name)));
    if (target.name.starts_with("_")) throw TemplateError(fmt::format("the attribute {} is private", in_quotes(target.name)));
    budget().grow(128);
    object.dict()->set(Text(target.name), std::move(value));
  }

  Flow for_(const Statement& s) {
    std::vector<Value> items = iterate(evaluate(*s.value), budget());
    if (s.condition) {
      std::vector<Value> kept;
      for (Value& item : items) {
        const bool keep = inside(scope_, [&] {
          assign(s.targets, item);
          return evaluate(*s.condition).truth();
        });
        if (keep) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    if (items.empty()) return inside(scope_, [&] { return execute(s.otherwise); });
    const ScopePtr outer = scope_;
    auto changed = std::make_shared<Value>(Undefined{"nothing yet"});
    for (size_t i = 0; i < items.size(); ++i) {
      const Flow flow = inside(outer, [&] {
        budget().step();
        if (s.uses_loop) scope_->names.insert_or_assign("loop", loop_object(items, i, changed));
        assign(s.targets, items[i]);
        return execute(s.body);
      });
      if (flow == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  Value loop_object(const std::vector<Value>& items, size_t at, const std::shared_ptr<Value>& changed) {
    const auto i = static_cast<int64_t>(at), n = static_cast<int64_t>(items.size());
    auto loop = std::make_shared<Dict>();
    const auto put = [&](const char* name, Value value) { loop->set(Text(name), std::move(value)); };
    put("index", Value(i + 1));
    put("index0", Value(i));
    put("revindex", Value(n - i));
    put("revindex0", Value(n - i - 1));
    put("first", Value(i == 0));
    put("last", Value(i + 1 == n));
    put("length", Value(n));
    put("depth", Value(int64_t{1}));
    put("depth0", Value(int64_t{0}));
    put("previtem", i > 0 ? items[at - 1] : Value(Undefined{"loop.previtem"}));
    put("nextitem", i + 1 < n ? items[at + 1] : Value(Undefined{"loop.nextitem"}));
    put("cycle", Value::function("loop.cycle", [i](const Arguments& a) {
          if (a.positional.empty()) throw TemplateError("loop.cycle needs values");
          return a.positional[static_cast<size_t>(i) % a.positional.size()];
        }));
    put("changed", Value::function("loop.changed", [changed, this](const Arguments& a) {
          Value now = Value::tuple(a.positional);
          const bool differs = !equal(now, *changed, budget());
          *changed = std::move(now);
          return Value(differs);
        }));
    return Value(std::make_shared<const Callable>(Callable{
        "loop", [](const Arguments&) -> Value { throw TemplateError("recursive loops are not supported"); }, std::move(loop)}));
  }

  // A macro, or the caller() of a call block: both are functions with parameters and a body.
  Value macro(const std::string& name, const Statement& s) {
    macro_scopes_.push_back(scope_);
    budget().grow(256);
    return Value::function(name, [this, &s, name, scope = std::weak_ptr<Scope>(scope_)](const Arguments& a) {
      return Value(call_macro(name, s, scope.lock(), a));
    });
  }

  Text call_macro(const std::string& name, const Statement& s, ScopePtr scope, const Arguments& a) {
    const Budget::Nesting nesting(budget());
    if (a.positional.size() > s.parameters.size())
      throw TemplateError(fmt::format("{} takes {} arguments, not {}", name, s.parameters.size(), a.positional.size()));
    for (const auto& argument : a.named) {
      const std::string& key = argument.first;
      const auto named = std::find_if(s.parameters.begin(), s.parameters.end(), [&](const Parameter& p) { return p.name == key; });
      if (named == s.parameters.end() && key != "caller") throw TemplateError(fmt::format("{} has no parameter {}", name, in_quotes(key)));
      if (named - s.parameters.begin() < static_cast<ptrdiff_t>(a.positional.size()))
        throw TemplateError(fmt::format("{} got {} twice", name, in_quotes(key)));
    }
    return captured([&] {
      inside(std::move(scope), [&] {
        for (size_t i = 0; i < s.parameters.size(); ++i) {
          const Parameter& p = s.parameters[i];
          const Value* given = a.get(i, p.name);
          Value value = given != nullptr ? *given : p.default_value ? evaluate(*p.default_value) : Value(Undefined{p.name});
          scope_->names.insert_or_assign(p.name, std::move(value));
        }
        if (const Value* caller = a.get(SIZE_MAX, "caller")) scope_->names.insert_or_assign("caller", *caller);
        return execute(s.body);
      });
    });
  }

  Value evaluate(const Expression& e) {
    try {
      const Budget::Nesting nesting(budget());
      budget().step();
      return value_of(e);
    } catch (TemplateError& error) {
      if (error.line == 0) error.line = e.line;
      throw;
    }
  }

  Value value_of(const Expression& e) {
    switch (e.kind) {
      case Expression::kConstant: return e.constant;
      case Expression::kName: return look_up(e.name);
      case Expression::kList: return Value::list(all(e.operands));
      case Expression::kTuple: return Value::tuple(all(e.operands));
      case Expression::kDict: return dict(e);
      case Expression::kAttribute: return attribute(e);
      case Expression::kItem: return item(e);
      case Expression::kSlice: return slice_of(e);
      case Expression::kCall: return call(e, nullptr);
      case Expression::kFilter: return filtered(e, evaluate(*e.operands[0]));
      case Expression::kTest: return Value(apply_test(e.name, evaluate(*e.operands[0]), arguments(e), runtime_));
      case Expression::kUnary: return unary_operation(e.name, evaluate(*e.operands[0]), runtime_);
      case Expression::kBinary: {
        const Value left = evaluate(*e.operands[0]);
        return binary_operation(e.name, left, evaluate(*e.operands[1]), runtime_);
      }
      case Expression::kCompare: return comparison(e);
      case Expression::kAnd:
      case Expression::kOr: return logic(e);
      case Expression::kCondition:
        if (evaluate(*e.operands[0]).truth()) return evaluate(*e.operands[1]);
        return e.operands[2] ? evaluate(*e.operands[2]) : Value(Undefined{"the value of an if without else"});
    }
    return Value();
  }

  Value look_up(const std::string& name) {
    for (const Scope* s = scope_.get(); s != nullptr; s = s->outer.get())
      if (const auto it = s->names.find(name); it != s->names.end()) return it->second;
    const Value* global = find_global(*globals_, name);
    return global != nullptr ? *global : Value(Undefined{name});
  }

  std::vector<Value> all(const std::vector<ExpressionPtr>& expressions) {
    std::vector<Value> values;
    budget().grow(expressions.size() * sizeof(Value));
    for (const ExpressionPtr& e : expressions) values.push_back(evaluate(*e));
    return values;
  }

  Value dict(const Expression& e) {
    auto out = std::make_shared<Dict>();
    budget().grow(e.operands.size() * 64);
    for (size_t i = 0; i < e.operands.size(); i += 2) {
      const Value key = evaluate(*e.operands[i]);
      out->set(text_argument(key, "a key of a dict"), evaluate(*e.operands[i + 1]));
    }
    return Value(std::move(out));
  }

  Value attribute(const Expression& e) {
    return named(get_attribute(evaluate(*e.operands[0]), e.name, runtime_), e, e.name);
  }
  Value item(const Expression& e) {
    const Value object = evaluate(*e.operands[0]);
    return named(get_item(object, evaluate(*e.operands[1]), runtime_), e, "[...]");
  }
  // An undefined member is named as the template wrote it, as far as that is names.
  Value named(Value value, const Expression& e, const std::string& member) {
    if (!value.undefined() || e.operands[0]->kind != Expression::kName) return value;
    return Value(Undefined{e.operands[0]->name + (e.kind == Expression::kAttribute ? "." : "") + member});
  }

  Value slice_of(const Expression& e) {
    const Value object = evaluate(*e.operands[0]);
    Value bounds[3];
    for (int i = 0; i < 3; ++i)
      if (e.operands[i + 1]) bounds[i] = evaluate(*e.operands[i + 1]);
    return get_slice(object, &bounds[0], &bounds[1], &bounds[2], runtime_);
  }

  Arguments arguments(const Expression& e) {
    Arguments out;
    for (size_t i = 0; i < e.arguments.size(); ++i) {
      Value value = evaluate(*e.arguments[i]);
      if (e.argument_names[i].empty()) {
        out.positional.push_back(std::move(value));
      } else if (e.argument_names[i] == "*") {
        for (Value& v : iterate(value, budget())) out.positional.push_back(std::move(v));
      } else {
        out.named.emplace_back(e.argument_names[i], std::move(value));
      }
    }
    return out;
  }

  Value filtered(const Expression& e, const Value& input) {
    if (e.name == "safe") throw TemplateError("the filter safe is supported only as the last one of a print tag");
    return apply_filter(e.name, input, arguments(e), runtime_);
  }
  // The filters of a filter block or a block set, the innermost first.
  Value through_chain(const Expression& e, const Value& input) {
    return filtered(e, e.operands[0] ? through_chain(*e.operands[0], input) : input);
  }

  Value call(const Expression& e, const Statement* block) {
    const Value callee = evaluate(*e.operands[0]);
    if (callee.callable() == nullptr) {
      if (callee.undefined())
        throw TemplateError(fmt::format("{} is undefined and cannot be called", in_quotes(std::get<Undefined>(callee.storage()).name)));
      throw TemplateError(fmt::format("a {} cannot be called", callee.type_name()));
    }
    Arguments a = arguments(e);
    if (block != nullptr) a.named.emplace_back("caller", macro("caller", *block));
    budget().step();
    return callee.callable()->call(a);
  }

  Value comparison(const Expression& e) {
    Value left = evaluate(*e.operands[0]);
    for (size_t i = 0; i < e.comparisons.size(); ++i) {
      Value right = evaluate(*e.operands[i + 1]);
      if (!compare(e.comparisons[i], left, right, runtime_)) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  Value logic(const Expression& e) {
    Value value;
    for (const ExpressionPtr& operand : e.operands) {
      value = evaluate(*operand);
      if (value.truth() == (e.kind == Expression::kOr)) break;
    }
    return value;
  }

  Runtime runtime_;
  std::vector<std::shared_ptr<Dict>> namespaces_;
  std::vector<ScopePtr> macro_scopes_;
  std::shared_ptr<Dict> globals_;
  ScopePtr scope_;
  Text* out_ = nullptr;
};

}  // namespace

struct Template::Impl {
  std::string name;
  Block block;
};
Template::Template(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

namespace {
// One line, whatever the template had to say.
Error as_error(std::string_view name, const std::string& said, int line) {
  std::string what = said.substr(0, 500);
  for (char& c : what)
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) c = ' ';
  what = replace_invalid_utf8(what).text;
  return bad_input(line > 0 ? fmt::format("{}, line {}: {}", name, line, what) : fmt::format("{}: {}", name, what));
}
}  // namespace

Result<Template> Template::parse(std::string_view source, std::string_view name) {
  if (source.size() > kMaxSource) return bad_input(fmt::format("{}: {} bytes, more than the limit of {}", name, source.size(), kMaxSource));
  if (!is_utf8(source)) return bad_input(fmt::format("{}: is not UTF-8", name));
  try {
    return Template(std::make_unique<Impl>(Impl{std::string(name), jinja::parse(source)}));
  } catch (const TemplateError& e) {
    return as_error(name, e.what(), e.line);
  }
}

Result<Text> Template::render(const Dict& variables, const RenderOptions& options) const {
  try {
    return Interpreter(variables, options).run(impl_->block);
  } catch (const TemplateError& e) {
    return as_error(impl_->name, e.what(), e.line);
  } catch (const std::out_of_range&) {
    return as_error(impl_->name, "an argument of a filter or method is missing", 0);
  }
}

}  // namespace zeroulp::tokenizer::jinja
