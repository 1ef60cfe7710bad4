#include "ops/conformance.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/fp_env.h"
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

std::string_view kind_name(Kind kind) {
  return kind == Kind::kExhaustive ? "exhaustive" : kind == Kind::kHard ? "hard" : "random";
}

template <class T>
void Outputs::append(std::string name, std::span<const T> values, int64_t first_index) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  arrays_.push_back({std::move(name), {bytes.begin(), bytes.end()}, sizeof(T), first_index, element_text<T>});
}
template void Outputs::append(std::string, std::span<const uint16_t>, int64_t);
template void Outputs::append(std::string, std::span<const float>, int64_t);
template void Outputs::append(std::string, std::span<const int16_t>, int64_t);
template void Outputs::append(std::string, std::span<const int64_t>, int64_t);
template void Outputs::append(std::string, std::span<const uint8_t>, int64_t);

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

std::vector<Outcome> run_all(const CpuFeatures& cpu, const std::function<void(std::string_view op)>& progress) {
  const FpEnvScope fp_env;
  std::vector<Outcome> all;
  const auto add = [&]<class Fn>(std::string_view op, Cases<Fn>* cases, Fn* reference, std::span<const Variant<Fn>> variants) {
    if (progress) progress(op);
    for (Outcome& outcome : run(op, cases, reference, variants, cpu)) all.push_back(std::move(outcome));
  };
  add("argmax", argmax::cases, argmax::reference, argmax::variants());
  add("attention", attention::cases, attention::reference, attention::variants());
  add("embedding", embedding::cases, embedding::reference, embedding::variants());
  add("linear_s8", linear_s8::cases, linear_s8::reference, linear_s8::variants());
  add("nll", nll::cases, nll::reference, nll::variants());
  add("quant_rows", quant_rows::cases, quant_rows::reference, quant_rows::variants());
  add("residual", residual::cases, residual::reference, residual::variants());
  add("rmsnorm", rmsnorm::cases, rmsnorm::reference, rmsnorm::variants());
  add("rope", rope::cases, rope::reference, rope::variants());
  add("silu_mul", silu_mul::cases, silu_mul::reference, silu_mul::variants());
  return all;
}

Verdict verdict(const std::vector<Outcome>& outcomes) {
  Verdict v;
  std::vector<std::string> compared;
  for (const Outcome& o : outcomes) {
    v.equal &= o.differing == 0;
    if (o.variant != kReference && o.skipped.empty() && o.elements > 0) compared.push_back(o.op);
  }
  for (const std::string_view op : kOps)
    if (std::find(compared.begin(), compared.end(), op) == compared.end()) v.ops_not_compared.emplace_back(op);
  return v;
}

}  // namespace zeroulp::ops::conformance
