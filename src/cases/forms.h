// The ops of the contract as tables of tensors and attributes: what a case of each holds, which rule each output obeys, and how to compute it.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "cases/case.h"

namespace zeroulp::cases {

// `dims`: names separated by commas; equal names are equal sizes, within a case.
struct TensorForm {
  std::string_view name;
  Dtype dtype;
  std::string_view dims;
  std::string_view text;
  bool optional = false;
};
enum class AttributeType : uint32_t { kInteger = 1, kReal = 2, kText = 3 };
struct AttributeForm {
  std::string_view name;
  AttributeType type;
  std::string_view text;
};
struct OutputForm {
  std::string_view name;
  Dtype dtype;
  std::string_view dims;
  std::string_view rule;  // of docs/contract.md
  std::string_view only_if = {};  // linear_s8: the value of `output` that asks for this type
};

using Outputs = std::vector<Tensor>;

// A case whose tensors and attributes are those of its form, with the sizes by their names.
struct Bound {
  const Case* c;
  std::map<std::string_view, int64_t> dims;

  int64_t dim(std::string_view name) const { return dims.at(name); }
  template <class T>
  const T* in(std::string_view name) const {
    const Tensor* t = c->input(name);
    return t == nullptr ? nullptr : t->as<T>();
  }
  int64_t integer(std::string_view name) const { return std::get<int64_t>(c->attribute(name)->value); }
  double real(std::string_view name) const { return std::get<double>(c->attribute(name)->value); }
  const std::string& text(std::string_view name) const { return std::get<std::string>(c->attribute(name)->value); }
};

// Computes a case's outputs, by the reference or by a variant.
struct Runner {
  std::string name, why_not;  // why it cannot run on this processor; empty: it can
  std::function<Outputs(const Bound&)> run;
};

// Takes one case after another; false: no more, please.
using Sink = std::function<bool(Case&&)>;

struct Form {
  std::string_view op;
  int section;  // of docs/contract.md
  std::string_view title;
  std::vector<TensorForm> inputs;
  std::vector<AttributeForm> attributes;
  std::vector<OutputForm> outputs;
  // What sizes and types do not say: values inside the ranges that the op admits. An error's text goes behind "case N: ".
  Status (*admit)(const Bound&);
  // Hands over the op's cases of the wanted kinds. They are made one after another, never all at once.
  void (*each)(const std::vector<Kind>& kinds, const Sink& sink);
  Outputs (*reference)(const Bound&);
  std::vector<Runner> (*variants)(const CpuFeatures& cpu);
};

// In the order of the contract's sections.
std::span<const Form> forms();
const Form* find_form(std::string_view op);  // null if there is none

// Checks a case from outside: exactly the form's inputs, attributes and outputs, sizes that fit each other, values that the op admits. After it
// every runner may be given the case. No size is trusted before; nothing is allocated.
Result<Bound> bind(const Form& form, const Case& c);

// The rule that an output obeys, with the section: "section 2: y = ...".
std::string rule_text(const Form& form, const Bound& c, std::string_view output);

// The outputs that a case with these inputs and attributes asks for.
std::vector<Spec> output_specs(const Form& form, const Bound& c);

// Recording: while `run` works, each call of a recorder (record_OP of forms.cpp, which has the signature of a variant) hands over the inputs as
// a case of its op, without index, kind and names. The op's outputs are then computed by its reference.
}  // namespace zeroulp::cases
