// The tree of a parsed template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace zeroulp::tokenizer::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum Kind : uint8_t {
    kConstant,   // constant
    kName,       // name
    kList,       // operands
    kTuple,      // operands
    kDict,       // operands: key, value, key, value
    kAttribute,  // operands[0] . name
    kItem,       // operands[0] [ operands[1] ]
    kSlice,      // operands[0] [ operands[1] : operands[2] : operands[3] ], null where left out
    kCall,       // operands[0] ( arguments )
    kFilter,     // operands[0] | name ( arguments ); operands[0] null: of a filter block
    kTest,       // operands[0] is name ( arguments )
    kUnary,      // name operands[0]; "-", "+", "not"
    kBinary,     // operands[0] name operands[1]
    kCompare,    // operands[0] comparisons[0] operands[1] comparisons[1] ...
    kAnd,
    kOr,
    kCondition  // operands[1] if operands[0] else operands[2] (null: undefined)
  };
  Kind kind;
  int line;
  int height = 1;  // of the tree below, itself included
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> comparisons;
  // Arguments: positional first, then named, whose names stand in argument_names; a name "*" unpacks a list.
  std::vector<ExpressionPtr> arguments;
  std::vector<std::string> argument_names;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  std::string name;
  ExpressionPtr default_value;  // null: none
};

struct Statement {
  enum Kind : uint8_t {
    kData,      // data
    kPrint,     // value
    kIf,        // branches, otherwise
    kFor,       // targets in value if condition: body, otherwise
    kSet,       // targets = value, or targets[0] = body through filter
    kMacro,     // name, parameters, body
    kWith,      // targets[i] = values[i]: body
    kFilter,    // body through filter
    kCall,      // value (a call) with body as caller(parameters)
    kGroup,     // body ({% generation %})
    kBreak,
    kContinue
  };
  Kind kind;
  int line;
  Text data;
  std::string name;
  ExpressionPtr value, condition, filter;
  std::vector<ExpressionPtr> targets, values;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  std::vector<Parameter> parameters;
  Block body, otherwise;
  bool uses_loop = false;  // of kFor: the body names the loop object
};

// Throws TemplateError; whatever the language has and this interpreter lacks is named.
Block parse(std::string_view source);

}  // namespace zeroulp::tokenizer::jinja
