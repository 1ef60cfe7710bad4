// What the forms of the ops share: packing arguments into a case, and reading them back.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fp_env.h"
#include "cases/forms.h"
#include "cases/record.h"
#include "cases/runners.h"
#include "num/bf16.h"

namespace zeroulp::cases {

// Rows of a strided array, dense.
template <class T>
Tensor packed(std::string_view name, Dtype dtype, std::vector<int64_t> shape, const T* values, int64_t columns, int64_t stride) {
  Tensor t{{std::string(name), dtype, std::move(shape)}, {}};
  const int64_t rows = columns == 0 ? 0 : t.elements() / columns;
  t.data.resize(static_cast<size_t>(t.bytes()));
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(t.data.data() + row * columns * static_cast<int64_t>(sizeof(T)), values + row * stride, static_cast<size_t>(columns) * sizeof(T));
  return t;
}
template <class T>
Tensor dense(std::string_view name, Dtype dtype, std::vector<int64_t> shape, const T* values) {
  int64_t count = 1;
  for (const int64_t d : shape) count *= d;
  return packed(name, dtype, std::move(shape), values, count, count);
}

// An output array before it is computed.
inline Tensor blank(const Spec& spec) { return {spec, std::vector<std::byte>(static_cast<size_t>(spec.bytes()))}; }
inline Outputs blanks(const Case& c) {
  Outputs out;
  for (const Spec& s : c.outputs) out.push_back(blank(s));
  return out;
}

inline Error outside(std::string_view what, std::string_view must) { return bad_input(fmt::format("{}: {}", what, must)); }

template <class T, class Good>
Status all_of(const Bound& c, std::string_view name, std::string_view must, const Good& good) {
  const Tensor& t = *c.c->input(name);
  const T* values = t.as<T>();
  const int64_t count = t.elements();
  for (int64_t i = 0; i < count; ++i)
    if (!good(values[i])) return outside(name, fmt::format("element {} is {}; {}", i, values[i], must));
  return {};
}

inline Status one_of(const Bound& c, std::string_view name, std::initializer_list<int64_t> values) {
  const int64_t value = c.integer(name);
  if (std::find(values.begin(), values.end(), value) != values.end()) return {};
  return outside(name, fmt::format("is {}; it must be {}", value, fmt::join(values, " or ")));
}
inline Status between(const Bound& c, std::string_view name, int64_t low, int64_t high) {
  const int64_t value = c.integer(name);
  if (value >= low && value <= high) return {};
  return outside(name, fmt::format("is {}; it must be {} to {}", value, low, high));
}
inline Status size_between(const Bound& c, std::string_view name, int64_t low, int64_t high) {
  if (c.dim(name) >= low && c.dim(name) <= high) return {};
  return outside(name, fmt::format("is {}; it must be {} to {}", c.dim(name), low, high));
}
// A real that is exactly a binary32.
inline Status is_float(const Bound& c, std::string_view name) {
  const double value = c.real(name);
  if (std::isfinite(value) && std::abs(value) <= 3.4028234663852886e38 && static_cast<double>(static_cast<float>(value)) == value) return {};
  return outside(name, fmt::format("is {}; it must be a binary32", value));
}

// An op's conformance cases as data.
template <class Fn>
void each_case(ops::conformance::Cases<Fn>* cases, Fn* recorder, const std::vector<Kind>& kinds, const Sink& sink) {
  int64_t next = 0;
  bool more = true;
  cases([&](const ops::conformance::CaseInfo& info, const ops::conformance::Call<Fn>& call) {
    const int64_t index = next++;
    if (!more || std::find(kinds.begin(), kinds.end(), kind_of(info.kind)) == kinds.end()) return;
    const Recording recording([&](Case&& c) {
      c.index = index;
      c.kind = kind_of(info.kind);
      c.name = info.name;
      c.catches = info.catches;
      more = sink(std::move(c));
    });
    ops::conformance::Outputs unused;
    call(recorder, unused);
  });
}

template <class Fn, Outputs (*kRun)(const Bound&, Fn*)>
std::vector<Runner> runners(std::span<const ops::Variant<Fn>> table, const CpuFeatures& cpu) {
  std::vector<Runner> out;
  for (const ops::Variant<Fn>& v : table)
    out.push_back({std::string(v.name), ops::why_unavailable(v.needs, cpu), [run = v.run](const Bound& c) {
                     const FpEnvScope fp_env;
                     return kRun(c, run);
                   }});
  return out;
}

// The forms of forms_*.cpp.
Form quant_rows_form();
Form linear_s8_form();
Form rmsnorm_form();
Form residual_form();
Form embedding_form();
Form silu_mul_form();
Form rope_form();
Form kv_cache_form();
Form attention_form();
Form argmax_form();
Form nll_form();
Form sample_form();

}  // namespace zeroulp::cases
