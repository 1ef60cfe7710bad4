// The fault catalogue as data: which wrong rule, where in the computation, and what each gate was predicted to make of it before anything
// was measured. A fault's code is the standing mutant of that name (ops/mutants): the op computes by it, nothing is changed afterwards.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "ops/kernels.h"
#include "verify/signature.h"

namespace zeroulp::verify {

// What is asked of a kernel under test. The first is asked of the inputs that the suite chooses, the next seven of an op's output on inputs
// captured from the model, the last two of the model's text.
enum class Gate {
  kSuite,        // equal bits on all cases of ops/OP/cases.cpp
  kEqual,        // equal bits
  kOneSpacing,   // at most one bf16 spacing apart
  kTorch,        // torch.testing's default for bf16: |d| <= 1e-5 + 1.6e-2 |x|
  kVllmTriton,   // vLLM's test of its Triton int8 kernel: |d| <= 0.1 + 0.1 |x|
  kVllmCutlass,  // vLLM's test of its CUTLASS int8 kernel: |d| <= 1 + 0.1 |x|
  kCosine,       // cosine of the whole output at least 0.999
  kMaxRelative,  // largest |d| at most 1 % of the largest |x|
  kTokens,       // the same greedy tokens
  kPerplexity    // perplexity within 0.5 %
};
inline constexpr size_t kGates = static_cast<size_t>(Gate::kPerplexity) + 1;
std::string_view gate_name(Gate gate);   // "one bf16 spacing"
std::string_view gate_short(Gate gate);  // "1 spacing", for column heads

// What a gate says of a fault.
enum class Seen : char { kNoticed = 'x', kPassed = '.', kNotAsked = '-' };

struct Fault {
  std::string_view name;
  FaultClass fault_class;
  std::string_view op, mutant;  // ops::mutants::of_OP(), by name
  std::string_view place;       // in the computation: what is done in place of what
  std::string_view seen;        // in the wild; may be empty
  // One letter per gate (Seen), for SmolLM2 as w8a15-free: no biases, K a multiple of 64, no window.
  std::string_view predicted;
  // Where it is another: Qwen2.5 (biases, K a multiple of 128), and any model with 8-bit activations and power-of-two scales. Empty: the same.
  std::string_view predicted_qwen = "", predicted_w8a8_po2 = "";
};
std::span<const Fault> faults();
const Fault* find_fault(std::string_view name);
inline constexpr int kRegistryVersion = 1;  // changes with any change of what a fault computes

// The prediction for a model: by its profile and whether it has biases.
std::string_view prediction(const Fault& fault, bool biases, std::string_view profile);

// Code that is other than the rule's and cannot change a bit.
struct Equivalent {
  std::string_view name, op, mutant;
  std::string_view condition;  // empty: on all admitted inputs
  std::string_view proof;      // the argument, and the test that checks it
};
std::span<const Equivalent> equivalents();

// Puts a fault into the kernels that a decoder runs.
void inject(const Fault& fault, ops::Kernels& kernels);

}  // namespace zeroulp::verify
