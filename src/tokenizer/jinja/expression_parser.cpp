#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "tokenizer/jinja/parser.h"

namespace zeroulp::tokenizer::jinja {
namespace {

constexpr int kMaxHeight = 150;

struct DepthGuard {
  DepthGuard(int& depth, const TokenReader& tokens) : depth_(depth) {
    if (++depth_ > kMaxHeight) tokens.fail(fmt::format("an expression is nested deeper than {} levels", kMaxHeight));
  }
  ~DepthGuard() { --depth_; }
  int& depth_;
};

}  // namespace

bool TokenReader::accept_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  take();
  return true;
}
bool TokenReader::accept_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}
void TokenReader::expect_operator(std::string_view op) {
  if (!accept_operator(op)) fail(fmt::format("\"{}\" is missing {}", op, here()));
}
std::string TokenReader::expect_name() {
  if (!is(Token::kName)) fail(fmt::format("a name is missing {}", here()));
  return take().text;
}
std::string TokenReader::here() const {
  if (is(Token::kEnd)) return "at the end of the template";
  if (is(Token::kBlockEnd) || is(Token::kPrintEnd)) return "at the end of a tag";
  return fmt::format("before {}", in_quotes(look().text));
}

void ExpressionParser::measure(Expression& e) const {
  int tallest = 0;
  for (const auto* list : {&e.operands, &e.arguments})
    for (const ExpressionPtr& child : *list)
      if (child) tallest = std::max(tallest, child->height);
  e.height = tallest + 1;
  if (e.height > kMaxHeight) tokens_.fail(fmt::format("an expression is nested deeper than {} levels", kMaxHeight));
}

ExpressionPtr ExpressionParser::make(Expression::Kind kind, std::string name, std::vector<ExpressionPtr> operands) {
  auto e = std::make_unique<Expression>();
  e->kind = kind;
  e->line = tokens_.look().line;
  e->name = std::move(name);
  e->operands = std::move(operands);
  measure(*e);
  return e;
}

namespace {
template <class... Parts>
std::vector<ExpressionPtr> list_of(Parts... parts) {
  std::vector<ExpressionPtr> list;
  (list.push_back(std::move(parts)), ...);
  return list;
}
}  // namespace

ExpressionPtr ExpressionParser::tuple(bool conditions) {
  const auto one = [&] { return conditions ? expression() : or_(); };
  const auto ends = [&] {
    return tokens_.is(Token::kPrintEnd) || tokens_.is(Token::kBlockEnd) || tokens_.is(Token::kEnd) || tokens_.is_operator(")") ||
           tokens_.is_name("recursive");
  };
  ExpressionPtr first = one();
  if (!tokens_.is_operator(",")) return first;
  std::vector<ExpressionPtr> parts = list_of(std::move(first));
  while (tokens_.accept_operator(",") && !ends()) parts.push_back(one());
  return make(Expression::kTuple, "", std::move(parts));
}

std::vector<ExpressionPtr> ExpressionParser::targets(bool attributes) {
  std::vector<ExpressionPtr> list;
  const bool bracket = tokens_.accept_operator("(");
  do {
    if (!list.empty() && !tokens_.is(Token::kName)) break;
    ExpressionPtr target = make(Expression::kName, tokens_.expect_name(), {});
    if (attributes && tokens_.accept_operator("."))
      target = make(Expression::kAttribute, tokens_.expect_name(), list_of(std::move(target)));
    list.push_back(std::move(target));
  } while (tokens_.accept_operator(","));
  if (bracket) tokens_.expect_operator(")");
  return list;
}

ExpressionPtr ExpressionParser::condition() {
  const DepthGuard guard(depth_, tokens_);
  ExpressionPtr value = or_();
  while (tokens_.accept_name("if")) {
    ExpressionPtr test = or_();
    ExpressionPtr otherwise = tokens_.accept_name("else") ? condition() : nullptr;
    value = make(Expression::kCondition, "", list_of(std::move(test), std::move(value), std::move(otherwise)));
  }
  return value;
}

ExpressionPtr ExpressionParser::or_() {
  const DepthGuard guard(depth_, tokens_);
  std::vector<ExpressionPtr> parts = list_of(and_());
  while (tokens_.accept_name("or")) parts.push_back(and_());
  return parts.size() == 1 ? std::move(parts[0]) : make(Expression::kOr, "", std::move(parts));
}

ExpressionPtr ExpressionParser::and_() {
  std::vector<ExpressionPtr> parts = list_of(not_());
  while (tokens_.accept_name("and")) parts.push_back(not_());
  return parts.size() == 1 ? std::move(parts[0]) : make(Expression::kAnd, "", std::move(parts));
}

ExpressionPtr ExpressionParser::not_() {
  const DepthGuard guard(depth_, tokens_);
  if (tokens_.accept_name("not")) return make(Expression::kUnary, "not", list_of(not_()));
  return compare();
}

ExpressionPtr ExpressionParser::compare() {
  std::vector<ExpressionPtr> parts = list_of(binary(0));
  std::vector<std::string> operators;
  for (;;) {
    static constexpr std::string_view kOperators[] = {"==", "!=", "<=", ">=", "<", ">"};
    const auto op = std::find_if(std::begin(kOperators), std::end(kOperators), [&](auto o) { return tokens_.is_operator(o); });
    if (op != std::end(kOperators)) {
      tokens_.take();
      operators.emplace_back(*op);
    } else if (tokens_.accept_name("in")) {
      operators.emplace_back("in");
    } else if (tokens_.is_name("not") && tokens_.look(1).kind == Token::kName && tokens_.look(1).text == "in") {
      tokens_.take();
      tokens_.take();
      operators.emplace_back("not in");
    } else {
      break;
    }
    parts.push_back(binary(0));
  }
  if (parts.size() == 1) return std::move(parts[0]);
  ExpressionPtr e = make(Expression::kCompare, "", std::move(parts));
  e->comparisons = std::move(operators);
  return e;
}

// Levels from loose to tight: + -, ~, * / // %, **. All group from the left, ** too, as in jinja2.
ExpressionPtr ExpressionParser::binary(int level) {
  static const std::vector<std::string_view> kLevels[] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
  if (level == static_cast<int>(std::size(kLevels))) return unary(true);
  ExpressionPtr left = binary(level + 1);
  for (;;) {
    const auto& ops = kLevels[level];
    const auto op = std::find_if(ops.begin(), ops.end(), [&](auto o) { return tokens_.is_operator(o); });
    if (op == ops.end()) return left;
    tokens_.take();
    ExpressionPtr right = binary(level + 1);
    left = make(Expression::kBinary, std::string(*op), list_of(std::move(left), std::move(right)));
  }
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const DepthGuard guard(depth_, tokens_);
  ExpressionPtr e;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    const std::string op = tokens_.take().text;
    e = make(Expression::kUnary, op, list_of(unary(false)));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filters ? filters_and_tests(std::move(e)) : std::move(e);
}

ExpressionPtr ExpressionParser::constant(Value value) {
  ExpressionPtr e = make(Expression::kConstant, "", {});
  e->constant = std::move(value);
  return e;
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = tokens_.look();
  if (token.kind == Token::kName) {
    const std::string name = tokens_.take().text;
    if (name == "true" || name == "True") return constant(Value(true));
    if (name == "false" || name == "False") return constant(Value(false));
    if (name == "none" || name == "None") return constant(Value());
    if (name == "loop") ++loop_mentions_;
    return make(Expression::kName, name, {});
  }
  if (token.kind == Token::kString) {
    std::string text;
    while (tokens_.is(Token::kString)) text += tokens_.take().text;
    return constant(Value(Text(text)));
  }
  if (token.kind == Token::kInteger) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error != std::errc() || (token.text[0] == '0' && value != 0)) tokens_.fail(fmt::format("the number {} is not supported", token.text));
    tokens_.take();
    return constant(Value(value));
  }
  if (token.kind == Token::kReal) {
    double value = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    tokens_.take();
    return constant(Value(value));
  }
  return bracketed();
}

ExpressionPtr ExpressionParser::bracketed() {
  if (tokens_.accept_operator("(")) {
    if (tokens_.accept_operator(")")) return make(Expression::kTuple, "", {});
    ExpressionPtr e = tuple(true);
    tokens_.expect_operator(")");
    return e;
  }
  if (tokens_.accept_operator("[")) {
    std::vector<ExpressionPtr> parts;
    while (!tokens_.accept_operator("]")) {
      if (!parts.empty()) tokens_.expect_operator(",");
      if (tokens_.accept_operator("]")) break;
      parts.push_back(expression());
    }
    return make(Expression::kList, "", std::move(parts));
  }
  if (tokens_.accept_operator("{")) return dict();
  tokens_.fail(fmt::format("a value is missing {}", tokens_.here()));
}

ExpressionPtr ExpressionParser::dict() {
  std::vector<ExpressionPtr> parts;
  while (!tokens_.accept_operator("}")) {
    if (!parts.empty()) tokens_.expect_operator(",");
    if (tokens_.accept_operator("}")) break;
    parts.push_back(expression());
    tokens_.expect_operator(":");
    parts.push_back(expression());
  }
  return make(Expression::kDict, "", std::move(parts));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr operand) {
  for (;;) {
    if (tokens_.accept_operator(".")) {
      if (tokens_.is(Token::kInteger)) {
        ExpressionPtr index = primary();
        operand = make(Expression::kItem, "", list_of(std::move(operand), std::move(index)));
      } else {
        operand = make(Expression::kAttribute, tokens_.expect_name(), list_of(std::move(operand)));
      }
    } else if (tokens_.accept_operator("[")) {
      operand = subscript(std::move(operand));
    } else if (tokens_.is_operator("(")) {
      operand = make(Expression::kCall, "", list_of(std::move(operand)));
      arguments(*operand);
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr operand) {
  std::vector<ExpressionPtr> parts = list_of(std::move(operand));
  bool slice = false;
  ExpressionPtr part;
  for (;;) {
    if (!tokens_.is_operator(":") && !tokens_.is_operator("]")) part = expression();
    if (tokens_.is_operator(",")) tokens_.fail("a subscript of several parts is not supported");
    parts.push_back(std::move(part));
    if (!tokens_.accept_operator(":")) break;
    slice = true;
    if (parts.size() == 4) tokens_.fail("a slice has three parts at most");
  }
  tokens_.expect_operator("]");
  if (!slice) {
    if (!parts[1]) tokens_.fail("a subscript is empty");
    return make(Expression::kItem, "", std::move(parts));
  }
  parts.resize(4);
  return make(Expression::kSlice, "", std::move(parts));
}

void ExpressionParser::arguments(Expression& call) {
  tokens_.expect_operator("(");
  while (!tokens_.accept_operator(")")) {
    if (!call.arguments.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.accept_operator(")")) break;
    }
    std::string name;
    if (tokens_.is_operator("**")) tokens_.fail("** in a call is not supported");
    if (tokens_.accept_operator("*")) {
      name = "*";
    } else if (tokens_.is(Token::kName) && tokens_.look(1).kind == Token::kOperator && tokens_.look(1).text == "=") {
      name = tokens_.take().text;
      tokens_.take();
    }
    if (name.empty() && !call.argument_names.empty() && !call.argument_names.back().empty() && call.argument_names.back() != "*")
      tokens_.fail("a plain argument stands after a named one");
    call.argument_names.push_back(name);
    call.arguments.push_back(expression());
  }
  measure(call);
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr operand) {
  for (;;) {
    if (tokens_.accept_operator("|")) {
      operand = one_filter(std::move(operand));
    } else if (tokens_.accept_name("is")) {
      operand = test(std::move(operand));
    } else if (tokens_.is_operator("(")) {
      operand = make(Expression::kCall, "", list_of(std::move(operand)));
      arguments(*operand);
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::one_filter(ExpressionPtr operand) {
  std::string name = tokens_.expect_name();
  while (tokens_.accept_operator(".")) name += "." + tokens_.expect_name();
  ExpressionPtr e = make(Expression::kFilter, std::move(name), list_of(std::move(operand)));
  if (tokens_.is_operator("(")) arguments(*e);
  return e;
}

ExpressionPtr ExpressionParser::filter_chain(ExpressionPtr operand) {
  do operand = one_filter(std::move(operand));
  while (tokens_.accept_operator("|"));
  return operand;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr operand) {
  const bool negated = tokens_.accept_name("not");
  std::string name = tokens_.expect_name();
  ExpressionPtr e = make(Expression::kTest, std::move(name), list_of(std::move(operand)));
  const bool plain = tokens_.is(Token::kName) && !tokens_.is_name("else") && !tokens_.is_name("or") && !tokens_.is_name("and") &&
                     !tokens_.is_name("if") && !tokens_.is_name("is") && !tokens_.is_name("not") && !tokens_.is_name("in") &&
                     !tokens_.is_name("recursive");
  if (tokens_.is_operator("(")) {
    arguments(*e);
  } else if (plain || tokens_.is(Token::kString) || tokens_.is(Token::kInteger) || tokens_.is(Token::kReal) ||
             tokens_.is_operator("[") || tokens_.is_operator("{")) {
    e->argument_names.emplace_back();
    e->arguments.push_back(postfix(primary()));
    measure(*e);
  }
  return negated ? make(Expression::kUnary, "not", list_of(std::move(e))) : std::move(e);
}

void ExpressionParser::parameters(std::vector<Parameter>& parameters) {
  tokens_.expect_operator("(");
  while (!tokens_.accept_operator(")")) {
    if (!parameters.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.accept_operator(")")) break;
    }
    Parameter parameter{tokens_.expect_name(), nullptr};
    if (tokens_.accept_operator("=")) {
      parameter.default_value = expression();
    } else if (!parameters.empty() && parameters.back().default_value) {
      tokens_.fail("a parameter without a default stands after one with a default");
    }
    parameters.push_back(std::move(parameter));
  }
}

}  // namespace zeroulp::tokenizer::jinja
