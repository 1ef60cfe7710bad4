#include "verify/faults/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "base/fp_env.h"
#include "base/interrupt.h"
#include "ops/argmax/cases.h"
#include "ops/argmax/reference.h"
#include "ops/attention/cases.h"
#include "ops/embedding/cases.h"
#include "ops/kv_cache/cases.h"
#include "ops/linear_s8/cases.h"
#include "ops/mutants/mutants.h"
#include "ops/quant_rows/cases.h"
#include "ops/residual/cases.h"
#include "ops/rmsnorm/cases.h"
#include "ops/rope/cases.h"
#include "ops/silu_mul/cases.h"

namespace zeroulp::verify {

namespace conformance = ops::conformance;
using io::Json;

namespace {

// The op's fastest variant stands for its reference, which it equals on all of these cases (Conformance.*).
template <class Fn>
Fn* fastest(std::string_view op, std::span<const ops::Variant<Fn>> table) {
  const auto best = ops::select(op, table, "", cpu_features());
  ZU_CHECK(best.has_value());
  return best->run;
}

// Calls visit(cases, right, mutants) with those of the op.
template <class Visit>
void visit_suite(std::string_view op, const Visit& visit) {
  using namespace ops;
  if (op == "linear_s8") visit(linear_s8::cases, fastest(op, linear_s8::variants()), mutants::of_linear_s8());
  if (op == "quant_rows") visit(quant_rows::cases, fastest(op, quant_rows::variants()), mutants::of_quant_rows());
  if (op == "rmsnorm") visit(rmsnorm::cases, fastest(op, rmsnorm::variants()), mutants::of_rmsnorm());
  if (op == "rope") visit(rope::cases, fastest(op, rope::variants()), mutants::of_rope());
  if (op == "rope_table") visit(rope::table_cases, num::sincos_bf16, mutants::of_rope_table());
  if (op == "attention") visit(attention::cases, fastest(op, attention::variants()), mutants::of_attention());
  if (op == "kv_cache") visit(kv_cache::cases, kv_cache::store, mutants::of_kv_cache());
  if (op == "silu_mul") visit(silu_mul::cases, fastest(op, silu_mul::variants()), mutants::of_silu_mul());
  if (op == "residual") visit(residual::cases, fastest(op, residual::variants()), mutants::of_residual());
  if (op == "embedding") visit(embedding::cases, fastest(op, embedding::variants()), mutants::of_embedding());
  if (op == "argmax") visit(argmax::cases, argmax::reference, mutants::of_argmax());
}

// An array of a case's outputs without the elements around it.
std::optional<Output> output_of(const conformance::CaseInfo& in, const conformance::Outputs::Array& a) {
  if (!a.real) return std::nullopt;
  const auto guard = static_cast<size_t>(std::max<int64_t>(-a.first_index, 0)) * a.width;
  Output o;
  o.place = fmt::format("{}: {}", in.name, a.name);
  o.element = a.width == sizeof(uint16_t) ? Element::kBf16 : Element::kF32;
  o.bytes.assign(a.bytes.begin() + static_cast<std::ptrdiff_t>(guard), a.bytes.end() - static_cast<std::ptrdiff_t>(guard));
  o.rows = 1;
  o.width = static_cast<int64_t>(o.bytes.size() / a.width);
  return o;
}

void add_case(const conformance::CaseInfo& in, const conformance::Outputs& want, const conformance::Outputs& got, SuiteGates& to) {
  ZU_CHECK(want.arrays().size() == got.arrays().size());
  ++to.cases;
  for (size_t i = 0; i < want.arrays().size(); ++i) {
    const std::optional<Output> w = output_of(in, want.arrays()[i]), g = output_of(in, got.arrays()[i]);
    const bool same = want.arrays()[i].bytes == got.arrays()[i].bytes;
    to.reals |= w.has_value();
    if (!w || (!same && w->bytes == g->bytes)) to.other_differ |= !same;
    if (w && w->width > 0) to.apart.add(*w, *g);
  }
}

bool noticed_by_all(const SuiteGates& g) {
  return std::all_of(std::begin(kOutputGates), std::end(kOutputGates), [&](Gate gate) { return g.seen(gate) == Seen::kNoticed || (!g.reals && gate != Gate::kEqual); });
}

}  // namespace

void first_suite_cases(std::string_view op, Json& to) {
  const FpEnvScope fp;
  visit_suite(op, [&]<class Fn>(conformance::Cases<Fn>* cases, Fn* right, std::span<const ops::Variant<Fn>> mutants) {
    for (const conformance::Outcome& o : conformance::run(op, cases, right, mutants, cpu_features(), /*only_first=*/true))
      if (o.variant != conformance::kReference) to[fmt::format("{}: {}", op, o.variant)] = o.first ? o.first->in.name : "";
  });
}

Seen SuiteGates::seen(Gate gate) const {
  if (gate == Gate::kEqual || gate == Gate::kSuite) return other_differ || apart.differing > 0 ? Seen::kNoticed : Seen::kPassed;
  return reals && !(other_differ && apart.differing == 0) ? apart.seen(gate) : Seen::kNotAsked;
}

std::vector<SuiteGates> gates_on_suite(const std::vector<std::string>& only, const std::function<void(std::string_view op)>& progress) {
  std::vector<const Fault*> wanted;
  std::vector<SuiteGates> out;
  for (const Fault& f : faults())
    if (only.empty() || std::find(only.begin(), only.end(), f.name) != only.end()) wanted.push_back(&f), out.push_back({.name = std::string(f.name)});
  std::vector<std::string_view> done;
  const FpEnvScope fp;
  for (const Fault* first : wanted) {
    const std::string_view op = first->op;
    if (std::find(done.begin(), done.end(), op) != done.end()) continue;
    done.push_back(op);
    if (progress) progress(op);
    visit_suite(op, [&]<class Fn>(conformance::Cases<Fn>* cases, Fn* right, std::span<const ops::Variant<Fn>> mutants) {
      const auto mutant = [&](const Fault& f) {
        const auto it = std::find_if(mutants.begin(), mutants.end(), [&](const ops::Variant<Fn>& v) { return v.name == f.mutant; });
        ZU_CHECK(it != mutants.end());
        return it->run;
      };
      cases([&](const conformance::CaseInfo& in, const conformance::Call<Fn>& call) {
        if (interrupt_requested()) return;
        conformance::Outputs want;
        call(right, want);
        for (size_t i = 0; i < wanted.size(); ++i) {
          if (wanted[i]->op != op || noticed_by_all(out[i])) continue;
          conformance::Outputs got;
          call(mutant(*wanted[i]), got);
          add_case(in, want, got, out[i]);
        }
      });
    });
    if (interrupt_requested()) return {};
  }
  return out;
}

}  // namespace zeroulp::verify
