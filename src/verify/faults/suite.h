// The gates on the inputs that the suite itself chooses (src/ops/OP/cases.cpp), for all faults. No model takes part.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "verify/faults/gates.h"

namespace zeroulp::verify {

// "op: mutant" -> the first case of the op's suite that rejects it, for every mutant of the op.
void first_suite_cases(std::string_view op, io::Json& to);

// What the gates make of one fault over the cases of its op. Each case's outputs are compared by themselves, as one at a place of a model is: a gate
// notices the fault when it does in one case. The six with a tolerance see bf16 and fp32 outputs alone: where nothing but codes differs, only equality is asked.
struct SuiteGates {
  std::string name;
  int64_t cases = 0;
  bool reals = false;         // some outputs are bf16 or fp32
  bool other_differ = false;  // outputs that are not, or elements outside the output
  Apart apart;                // of those that are
  Seen seen(Gate gate) const;
};
inline constexpr Gate kOutputGates[] = {Gate::kEqual, Gate::kOneSpacing, Gate::kTorch, Gate::kVllmTriton, Gate::kVllmCutlass, Gate::kCosine, Gate::kMaxRelative};

// One of every fault in `only` (empty: of all), in the registry's order. A case is left out once every gate has noticed. Interrupted: an empty list.
std::vector<SuiteGates> gates_on_suite(const std::vector<std::string>& only, const std::function<void(std::string_view op)>& progress);

}  // namespace zeroulp::verify
