// Mutants of the ops that have no variants: wrong in a way that some real kernel was wrong.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/argmax/reference.h"
#include "ops/kv_cache/row_cases.h"
#include "ops/sample/cases.h"

namespace zeroulp::ops::mutants {

// Value codes by half away from zero.
inline void rows_half_away(const kv_cache::RowsArgs& a) {
  kv_cache::store_rows(a);
  for (int64_t row = 0; row < a.rows; ++row) {
    if (a.value_exponents[row] == kv_cache::kZeroRow) continue;
    for (int64_t i = 0; i < a.d; ++i)
      a.value_codes[row * a.d + i] = static_cast<int8_t>(std::round(num::bf16_to_float(a.v[row * a.d + i]) * num::pow2(-a.value_exponents[row])));
  }
}
// A faulted value row that leaves the key's scale alone.
inline void rows_fault_passed_over(const kv_cache::RowsArgs& a) {
  kv_cache::store_rows(a);
  for (int64_t row = 0; row < a.rows; ++row) {
    const auto key = kv_cache::key_row(quant_rows::row_absmax(a.k + row * a.d, a.d), a.key_width);
    if (!key.fault) a.key_scales[row] = key.scale;
  }
}
// The exponent by the nearest power of two, which clips.
inline void rows_nearest_exponent(const kv_cache::RowsArgs& a) {
  kv_cache::store_rows(a);
  for (int64_t row = 0; row < a.rows; ++row)
    if (a.value_exponents[row] != kv_cache::kZeroRow) --a.value_exponents[row];
}
inline std::span<const Variant<kv_cache::RowsFn>> of_kv_cache_rows() {
  static constexpr Variant<kv_cache::RowsFn> kTable[] = {{"ties away from zero", Needs::kNothing, rows_half_away},
                                                         {"fault of the value row passed over", Needs::kNothing, rows_fault_passed_over},
                                                         {"another exponent", Needs::kNothing, rows_nearest_exponent}};
  return kTable;
}

// The counter's request in 32 bits.
inline void draw_short_request(sample::DrawArgs& a) {
  sample::DrawArgs b = a;
  b.request &= 0xFFFFFFFFu;
  sample::draw_one(b);
  a.token = b.token;
}
// Always the likeliest.
inline void draw_greedily(sample::DrawArgs& a) {
  argmax::Args best{a.logits, a.count};
  argmax::reference(best);
  a.token = best.index;
}
// top-p rounded down to units of 2^-8.
inline void draw_coarse_top_p(sample::DrawArgs& a) {
  sample::DrawArgs b = a;
  b.settings.top_p = std::max(std::floor(a.settings.top_p * 256) / 256, 1.0 / 65536);
  sample::draw_one(b);
  a.token = b.token;
}
inline std::span<const Variant<sample::DrawFn>> of_draws() {
  static constexpr Variant<sample::DrawFn> kTable[] = {{"request of 32 bits", Needs::kNothing, draw_short_request},
                                                       {"the likeliest always", Needs::kNothing, draw_greedily},
                                                       {"top-p in coarse steps", Needs::kNothing, draw_coarse_top_p}};
  return kTable;
}

}  // namespace zeroulp::ops::mutants
