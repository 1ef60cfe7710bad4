// Statements.
#include "tokenizer/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace zeroulp::tokenizer::jinja {
namespace {

constexpr int kMaxNesting = 60;

class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Block run() {
    Block block = statements({});
    if (!tokens_.is(Token::kEnd)) tokens_.fail(fmt::format("{} closes nothing", in_quotes(tokens_.look(1).text)));
    return block;
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  bool at_any(Words ends) const {
    return tokens_.is(Token::kBlockBegin) && tokens_.look(1).kind == Token::kName &&
           std::find(ends.begin(), ends.end(), tokens_.look(1).text) != ends.end();
  }

  // Statements up to a block tag that is one of `ends` (left for the caller) or closes something else.
  Block statements(Words ends) {
    if (++nesting_ > kMaxNesting) tokens_.fail(fmt::format("blocks are nested deeper than {} levels", kMaxNesting));
    Block block;
    while (!tokens_.is(Token::kEnd) && !at_any(ends)) {
      if (tokens_.is(Token::kBlockBegin) && tokens_.look(1).text.starts_with("end")) break;
      if (at_any({"else", "elif"})) break;
      block.push_back(statement());
    }
    --nesting_;
    return block;
  }

  std::unique_ptr<Statement> start(Statement::Kind kind) const {
    auto s = std::make_unique<Statement>();
    s->kind = kind;
    s->line = tokens_.look().line;
    return s;
  }

  void end_tag() {
    if (!tokens_.is(Token::kBlockEnd)) tokens_.fail(fmt::format("\"%}}\" is missing {}", tokens_.here()));
    tokens_.take();
  }

  // The body of a block, its "{% end... %}" included.
  Block body(std::string_view end) {
    Block block = statements({end});
    close(end);
    return block;
  }
  void close(std::string_view end) {
    if (!at_any({end})) tokens_.fail(fmt::format("{{% {} %}} is missing {}", end, tokens_.here()));
    tokens_.take();
    tokens_.take();
    end_tag();
  }

  std::unique_ptr<Statement> statement() {
    if (tokens_.is(Token::kData)) {
      auto s = start(Statement::kData);
      s->data = Text(tokens_.take().text);
      return s;
    }
    if (tokens_.is(Token::kPrintBegin)) {
      tokens_.take();
      auto s = start(Statement::kPrint);
      s->value = expressions_.tuple(true);
      if (!tokens_.is(Token::kPrintEnd)) tokens_.fail(fmt::format("\"}}}}\" is missing {}", tokens_.here()));
      tokens_.take();
      return s;
    }
    tokens_.take();  // {%
    return block_statement(tokens_.expect_name());
  }

  std::unique_ptr<Statement> block_statement(const std::string& word) {
    if (word == "if") return if_();
    if (word == "for") return for_();
    if (word == "set") return set();
    if (word == "macro") return macro();
    if (word == "with") return with();
    if (word == "filter") return filter();
    if (word == "call") return call();
    if (word == "generation") {
      auto s = start(Statement::kGroup);
      end_tag();
      s->body = body("endgeneration");
      return s;
    }
    if (word == "break" || word == "continue") {
      if (loops_ == 0) tokens_.fail(fmt::format("{{% {} %}} stands outside a loop", word));
      auto s = start(word == "break" ? Statement::kBreak : Statement::kContinue);
      end_tag();
      return s;
    }
    tokens_.fail(fmt::format("the tag {} is not supported", in_quotes(word)));
  }

  std::unique_ptr<Statement> if_() {
    auto s = start(Statement::kIf);
    for (;;) {
      ExpressionPtr test = expressions_.tuple(false);
      end_tag();
      Block block = statements({"elif", "else", "endif"});
      s->branches.emplace_back(std::move(test), std::move(block));
      if (!at_any({"elif"})) break;
      tokens_.take();
      tokens_.take();
    }
    if (at_any({"else"})) {
      close("else");
      s->otherwise = statements({"endif"});
    }
    close("endif");
    return s;
  }

  std::unique_ptr<Statement> for_() {
    auto s = start(Statement::kFor);
    s->targets = expressions_.targets(false);
    if (!tokens_.accept_name("in")) tokens_.fail(fmt::format("\"in\" is missing {}", tokens_.here()));
    s->value = expressions_.tuple(false);
    if (tokens_.accept_name("if")) s->condition = expressions_.expression();
    if (tokens_.is_name("recursive")) tokens_.fail("recursive loops are not supported");
    end_tag();
    const int mentions = expressions_.loop_mentions();
    ++loops_;
    s->body = statements({"else", "endfor"});
    --loops_;
    s->uses_loop = expressions_.loop_mentions() != mentions;
    if (at_any({"else"})) {
      close("else");
      s->otherwise = statements({"endfor"});
    }
    close("endfor");
    return s;
  }

  std::unique_ptr<Statement> set() {
    auto s = start(Statement::kSet);
    s->targets = expressions_.targets(true);
    if (tokens_.accept_operator("=")) {
      s->value = expressions_.tuple(true);
      end_tag();
      return s;
    }
    if (s->targets.size() != 1) tokens_.fail("a block set has one target");
    if (tokens_.accept_operator("|")) s->filter = expressions_.filter_chain(nullptr);
    end_tag();
    s->body = body("endset");
    return s;
  }

  std::unique_ptr<Statement> macro() {
    auto s = start(Statement::kMacro);
    s->name = tokens_.expect_name();
    expressions_.parameters(s->parameters);
    end_tag();
    const int outer_loops = std::exchange(loops_, 0);
    s->body = body("endmacro");
    loops_ = outer_loops;
    return s;
  }

  std::unique_ptr<Statement> with() {
    auto s = start(Statement::kWith);
    while (!tokens_.is(Token::kBlockEnd)) {
      if (!s->targets.empty()) tokens_.expect_operator(",");
      auto targets = expressions_.targets(false);
      if (targets.size() != 1) tokens_.fail("a with tag sets one name at a time");
      s->targets.push_back(std::move(targets[0]));
      tokens_.expect_operator("=");
      s->values.push_back(expressions_.expression());
    }
    end_tag();
    s->body = body("endwith");
    return s;
  }

  std::unique_ptr<Statement> filter() {
    auto s = start(Statement::kFilter);
    s->filter = expressions_.filter_chain(nullptr);
    end_tag();
    s->body = body("endfilter");
    return s;
  }

  std::unique_ptr<Statement> call() {
    auto s = start(Statement::kCall);
    if (tokens_.is_operator("(")) expressions_.parameters(s->parameters);
    s->value = expressions_.expression();
    if (s->value->kind != Expression::kCall) tokens_.fail("a call tag needs a call");
    end_tag();
    const int outer_loops = std::exchange(loops_, 0);
    s->body = body("endcall");
    loops_ = outer_loops;
    return s;
  }

  TokenReader tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0, loops_ = 0;
};

}  // namespace

Block parse(std::string_view source) { return StatementParser(source).run(); }

}  // namespace zeroulp::tokenizer::jinja
