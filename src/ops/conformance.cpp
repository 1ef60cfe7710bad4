#include "ops/conformance.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/fp_env.h"
#include "base/interrupt.h"
#include "num/bf16.h"
#include "num/bits.h"
#include "ops/argmax/cases.h"
#include "ops/argmax/reference.h"
#include "ops/attention/cases.h"
#include "ops/attention/reference.h"
#include "ops/embedding/cases.h"
#include "ops/embedding/reference.h"
#include "ops/linear_s8/cases.h"
#include "ops/linear_s8/reference.h"
#include "ops/nll/cases.h"
#include "ops/nll/reference.h"
#include "ops/quant_rows/cases.h"
#include "ops/quant_rows/reference.h"
#include "ops/residual/cases.h"
#include "ops/residual/reference.h"
#include "ops/rmsnorm/cases.h"
#include "ops/rmsnorm/reference.h"
#include "ops/rope/cases.h"
#include "ops/rope/reference.h"
#include "ops/silu_mul/cases.h"
#include "ops/silu_mul/reference.h"

namespace zeroulp::ops::conformance {
namespace {

// A uint16_t is a bf16: no op writes any other.
template <class T>
std::string element_text(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  if constexpr (std::is_same_v<T, uint16_t>)
    return fmt::format("{} (0x{:04x})", num::bf16_to_float(value), value);
  else if constexpr (std::is_same_v<T, float>)
    return fmt::format("{} (0x{:08x})", value, num::bits_of(value));
  else
    return fmt::format("{} (0x{:0{}x})", value, static_cast<std::make_unsigned_t<T>>(value), 2 * sizeof(T));
}

}  // namespace

std::pair<std::string_view, std::string_view> split_name(std::string_view name) {
  const size_t at = name.find('=');
  return {name.substr(0, at), at == name.npos ? std::string_view() : name.substr(at + 1)};
}

std::string_view kind_name(Kind kind) {
  return kind == Kind::kExhaustive ? "exhaustive" : kind == Kind::kHard ? "hard" : "random";
}

template <class T>
void Outputs::append(std::string name, std::span<const T> values, int64_t first_index) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  arrays_.push_back({std::move(name), {bytes.begin(), bytes.end()}, sizeof(T), first_index, element_text<T>, std::is_same_v<T, uint16_t> || std::is_same_v<T, float>});
}
template void Outputs::append(std::string, std::span<const uint16_t>, int64_t);
template void Outputs::append(std::string, std::span<const float>, int64_t);
template void Outputs::append(std::string, std::span<const int16_t>, int64_t);
template void Outputs::append(std::string, std::span<const int64_t>, int64_t);
template void Outputs::append(std::string, std::span<const uint8_t>, int64_t);
template void Outputs::append(std::string, std::span<const int8_t>, int64_t);

void add_to_digest(num::Sha256& digest, const Outputs& outputs) {
  for (const Outputs::Array& a : outputs.arrays()) digest.update(a.bytes);
}

void compare(const CaseInfo& info, const Outputs& want, const Outputs& got, Outcome& outcome) {
  ZU_CHECK(want.arrays().size() == got.arrays().size());
  const int64_t differing_before = outcome.differing;
  for (size_t a = 0; a < want.arrays().size(); ++a) {
    const Outputs::Array &w = want.arrays()[a], &g = got.arrays()[a];
    ZU_CHECK(w.bytes.size() == g.bytes.size());
    const auto count = static_cast<int64_t>(w.bytes.size() / w.width);
    outcome.elements += count + 2 * std::min<int64_t>(w.first_index, 0);
    if (w.bytes == g.bytes) continue;
    for (int64_t i = 0; i < count; ++i) {
      const size_t at = static_cast<size_t>(i) * w.width;
      if (std::memcmp(w.bytes.data() + at, g.bytes.data() + at, w.width) == 0) continue;
      if (++outcome.differing == 1)
        outcome.first = Difference{info, w.name, w.first_index + i, w.text(w.bytes.data() + at), g.text(g.bytes.data() + at)};
    }
  }
  ++outcome.cases;
  outcome.cases_differing += outcome.differing > differing_before;
}

namespace {

// Calls visit(op, cases, reference, CPU variants, GPU variants) for every op, in the order of kOps.
template <class Visit>
void for_each_op(const Visit& visit) {
  visit("argmax", argmax::cases, argmax::reference, argmax::variants(), argmax::device_variants());
  visit("attention", attention::cases, attention::reference, attention::variants(), attention::device_variants());
  visit("embedding", embedding::cases, embedding::reference, embedding::variants(), embedding::device_variants());
  visit("linear_s8", linear_s8::cases, linear_s8::reference, linear_s8::variants(), linear_s8::device_variants());
  visit("nll", nll::cases, nll::reference, nll::variants(), nll::device_variants());
  visit("quant_rows", quant_rows::cases, quant_rows::reference, quant_rows::variants(), quant_rows::device_variants());
  visit("residual", residual::cases, residual::reference, residual::variants(), residual::device_variants());
  visit("rmsnorm", rmsnorm::cases, rmsnorm::reference, rmsnorm::variants(), rmsnorm::device_variants());
  visit("rope", rope::cases, rope::reference, rope::variants(), rope::device_variants());
  visit("silu_mul", silu_mul::cases, silu_mul::reference, silu_mul::variants(), silu_mul::device_variants());
}

// Whether `only` names the op, or one of its variants: this one, where `variant` is given.
bool asked(std::string_view op, std::span<const std::string> only, std::string_view variant = {}) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& name) {
           const auto [of, which] = split_name(name);
           return of == op && (which.empty() || variant.empty() || which == variant);
         });
}

void append(std::vector<Outcome>& all, std::vector<Outcome> more) {
  for (Outcome& outcome : more) all.push_back(std::move(outcome));
}

}  // namespace

std::vector<Outcome> run_all(const CpuFeatures& cpu, const std::function<void(std::string_view op)>& progress, std::span<const std::string> only) {
  const FpEnvScope fp_env;
  std::vector<Outcome> all;
  for_each_op([&]<class Fn>(std::string_view op, Cases<Fn>* cases, Fn* reference, std::span<const Variant<Fn>> variants, auto) {
    if (!asked(op, only) || interrupt_requested()) return;  // the caller asks too, and takes no verdict from a part
    if (progress) progress(op);
    std::vector<Variant<Fn>> some;
    for (const Variant<Fn>& v : variants)
      if (asked(op, only, v.name)) some.push_back(v);
    append(all, run<Fn>(op, cases, reference, some, cpu));
  });
  return all;
}

std::vector<Outcome> run_all_on_device(int index, const std::function<void(std::string_view op)>& progress, std::span<const std::string> only) {
  const FpEnvScope fp_env;
  const Status usable = device::use(index);
  std::vector<Outcome> all;
  for_each_op([&]<class Fn>(std::string_view op, Cases<Fn>* cases, Fn* reference, std::span<const Variant<Fn>>, auto on_device) {
    if (!asked(op, only) || interrupt_requested()) return;  // the caller asks too, and takes no verdict from a part
    if (progress) progress(op);
    std::vector<Candidate<Fn>> candidates;
    for (const auto& v : on_device)
      if (asked(op, only, v.name)) candidates.push_back({std::string(v.name), v.staged, !usable ? usable.error().text : v.why_not != nullptr ? v.why_not() : ""});
    append(all, run(op, cases, reference, candidates));
  });
  return all;
}

Verdict verdict(const std::vector<Outcome>& outcomes, std::span<const std::string> only) {
  Verdict v;
  std::vector<std::string> compared;
  for (const Outcome& o : outcomes) {
    v.equal &= o.differing == 0;
    if (o.variant != kReference && o.skipped.empty() && o.elements > 0) compared.push_back(o.op);
  }
  for (const std::string_view op : kOps)
    if (asked(op, only) && std::find(compared.begin(), compared.end(), op) == compared.end()) v.ops_not_compared.emplace_back(op);
  return v;
}

}  // namespace zeroulp::ops::conformance
