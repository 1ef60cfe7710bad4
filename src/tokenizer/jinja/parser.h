// Expressions and statements share this view of the token list; see parser.cpp and expression_parser.cpp.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/lexer.h"

namespace zeroulp::tokenizer::jinja {

class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& look(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }
  bool is(Token::Kind kind) const { return look().kind == kind; }
  bool is_operator(std::string_view op) const { return is(Token::kOperator) && look().text == op; }
  bool is_name(std::string_view name) const { return is(Token::kName) && look().text == name; }
  bool accept_operator(std::string_view op);
  bool accept_name(std::string_view name);
  void expect_operator(std::string_view op);
  std::string expect_name();
  [[noreturn]] void fail(const std::string& what) const { throw TemplateError(what, look().line); }
  // "near ..." for messages.
  std::string here() const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& tokens) : tokens_(tokens) {}

  ExpressionPtr expression() { return condition(); }
  // An expression, or a tuple without brackets. `conditions`: whether "a if b" may stand in it.
  ExpressionPtr tuple(bool conditions);
  // What may stand left of "=" or "in": names, attributes of names; several make a tuple's parts.
  std::vector<ExpressionPtr> targets(bool attributes);
  // The filters that follow a "|" in a filter block or a block set; the innermost has no operand.
  ExpressionPtr filter_chain(ExpressionPtr operand);
  void parameters(std::vector<Parameter>& parameters);
  // How often the name "loop" has stood in an expression so far.
  int loop_mentions() const { return loop_mentions_; }

 private:
  ExpressionPtr condition();
  ExpressionPtr or_();
  ExpressionPtr and_();
  ExpressionPtr not_();
  ExpressionPtr compare();
  ExpressionPtr binary(int level);
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr constant(Value value);
  ExpressionPtr bracketed();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr operand);
  ExpressionPtr subscript(ExpressionPtr operand);
  ExpressionPtr filters_and_tests(ExpressionPtr operand);
  ExpressionPtr one_filter(ExpressionPtr operand);
  ExpressionPtr test(ExpressionPtr operand);
  void arguments(Expression& call);
  ExpressionPtr make(Expression::Kind kind, std::string name, std::vector<ExpressionPtr> operands);
  // Recounts the height after arguments or operands were added; refuses trees that evaluation could not walk.
  void measure(Expression& e) const;

  TokenReader& tokens_;
  int depth_ = 0, loop_mentions_ = 0;
};

}  // namespace zeroulp::tokenizer::jinja
