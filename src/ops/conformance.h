// Conformance: every variant of every op against the op's reference, bit for bit, on the inputs that the op's cases.cpp lists.
// There is no tolerance. A variant that cannot run here is reported as skipped, never as passed.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "num/digest.h"
#include "ops/op.h"

namespace zeroulp::ops::conformance {

enum class Kind { kExhaustive, kHard, kRandom };
std::string_view kind_name(Kind kind);

// A case says which fault it is there to catch, so that a failure explains itself.
struct CaseInfo {
  Kind kind;
  std::string name;
  std::string catches;
};

// An output array with untouched elements before and behind it: what a variant writes outside its rows is compared too.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t count) : values_(static_cast<size_t>(count + 2 * kGuard)) {
    std::memset(values_.data(), 0x5A, values_.size() * sizeof(T));
  }
  explicit Guarded(const std::vector<T>& start) : Guarded(static_cast<int64_t>(start.size())) {
    std::copy(start.begin(), start.end(), values_.begin() + kGuard);
  }
  T* data() { return values_.data() + kGuard; }
  std::span<const T> all() const { return values_; }

  static constexpr int64_t kGuard = 64;

 private:
  std::vector<T> values_;
};

// What one run of a variant gave.
class Outputs {
 public:
  struct Array {
    std::string name;
    std::vector<std::byte> bytes;
    size_t width;         // bytes of an element
    int64_t first_index;  // of the array's first element: negative with guards
    std::string (*text)(const std::byte* element);
    bool real;            // bf16 or fp32
  };

  template <class T>
  void add(std::string name, const Guarded<T>& values) {
    append(std::move(name), values.all(), -Guarded<T>::kGuard);
  }
  template <class T>
  void add(std::string name, T value) {
    append(std::move(name), std::span<const T>(&value, 1), 0);
  }
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  template <class T>
  void append(std::string name, std::span<const T> values, int64_t first_index);
  std::vector<Array> arrays_;
};

// An op's cases.cpp builds the inputs of one case after another and hands each over with a call that runs a given variant on them.
template <class Fn>
using Call = std::function<void(Fn* variant, Outputs& outputs)>;
template <class Fn>
using Visit = std::function<void(const CaseInfo& info, const Call<Fn>& call)>;
template <class Fn>
using Cases = void(const Visit<Fn>& visit);

struct Difference {
  CaseInfo in;
  std::string array;
  int64_t index;
  std::string want, got;  // "0.5 (0x3f00)"
};

// One variant of one op.
struct Outcome {
  std::string op, variant;
  std::string skipped;  // why it did not run; empty: it ran
  int64_t cases = 0, cases_differing = 0, elements = 0, differing = 0;
  std::optional<Difference> first;
  std::string digest;  // the reference: SHA-256 of all outputs of all cases
};
inline constexpr std::string_view kReference = "reference";

// Counts what differs between the outputs of the reference and those of a variant in one case.
void compare(const CaseInfo& info, const Outputs& want, const Outputs& got, Outcome& outcome);

// Adds a case's outputs to a digest.
void add_to_digest(num::Sha256& digest, const Outputs& outputs);

// A variant behind host pointers, or why it cannot run here.
template <class Fn>
struct Candidate {
  std::string name;
  Fn* run;
  std::string why_not;
};

// Runs the candidates that can run on every case. The first outcome is that of the reference, which the others are compared with; its
// digest is the same on every machine and with every compiler. With `only_first` a variant is left alone after its first difference.
template <class Fn>
std::vector<Outcome> run(std::string_view op, Cases<Fn>* cases, Fn* reference, const std::vector<Candidate<Fn>>& candidates,
                         bool only_first = false) {
  std::vector<Outcome> outcomes(1);
  outcomes[0].op = op;
  outcomes[0].variant = kReference;
  for (const Candidate<Fn>& c : candidates) {
    Outcome outcome;
    outcome.op = op;
    outcome.variant = c.name;
    outcome.skipped = c.why_not;
    outcomes.push_back(std::move(outcome));
  }
  num::Sha256 digest;
  cases([&](const CaseInfo& info, const Call<Fn>& call) {
    Outputs want;
    call(reference, want);
    add_to_digest(digest, want);
    compare(info, want, want, outcomes[0]);
    for (size_t i = 1; i < outcomes.size(); ++i) {
      if (!outcomes[i].skipped.empty() || (only_first && outcomes[i].differing > 0)) continue;
      Outputs got;
      call(candidates[i - 1].run, got);
      compare(info, want, got, outcomes[i]);
    }
  });
  outcomes[0].digest = digest.hex();
  return outcomes;
}

// The variants of this processor.
template <class Fn>
std::vector<Outcome> run(std::string_view op, Cases<Fn>* cases, Fn* reference, std::span<const Variant<Fn>> variants,
                         const CpuFeatures& cpu, bool only_first = false) {
  std::vector<Candidate<Fn>> candidates;
  for (const Variant<Fn>& v : variants)
    if (v.run != reference) candidates.push_back({std::string(v.name), v.run, why_unavailable(v.needs, cpu)});
  return run(op, cases, reference, candidates, only_first);
}

// The ops with variants, in the order of Kernels.
inline constexpr std::string_view kOps[] = {"argmax",     "attention", "embedding", "linear_s8", "nll",
                                            "quant_rows", "residual",  "rmsnorm",   "rope",      "silu_mul"};

// "op" or "op=variant" as its parts; the second is empty without one.
std::pair<std::string_view, std::string_view> split_name(std::string_view name);

// All of them, or those named in `only` as "op" or "op=variant". Runs under the contract's floating-point control. `progress` is told each op's name before it runs.
std::vector<Outcome> run_all(const CpuFeatures& cpu, const std::function<void(std::string_view op)>& progress = {},
                             std::span<const std::string> only = {});

// The variants of a GPU against the same reference on the same cases; all are reported as skipped where there is no such GPU.
std::vector<Outcome> run_all_on_device(int index, const std::function<void(std::string_view op)>& progress = {}, std::span<const std::string> only = {});

// What run_all's outcomes say: a difference anywhere; and whether every op (of `only`, when it names some) had at least one variant to compare
// with its reference.
struct Verdict {
  bool equal = true;
  std::vector<std::string> ops_not_compared;
};
Verdict verdict(const std::vector<Outcome>& outcomes, std::span<const std::string> only = {});

}  // namespace zeroulp::ops::conformance
