#include <algorithm>
#include <cmath>

#include <vector>

#include "ops/mutants/mutants.h"
#include "ops/quant_rows/reference.h"
#include "ops/rmsnorm/reference.h"

namespace zeroulp::ops::mutants {
namespace {

using num::bf16_to_float;
using num::float_to_bf16;

// argmax
void argmax_last(argmax::Args& a) {
  a.index = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    if (!num::is_finite(a.logits[i])) a.index = -1;
    if (a.index >= 0 && a.logits[i] >= a.logits[a.index]) a.index = i;
    if (a.index < 0) return;
  }
}
template <bool kNanWins>
void argmax_without_nan_check(argmax::Args& a) {
  a.index = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    if (kNanWins && num::is_nan(a.logits[i])) {
      a.index = i;
      return;
    }
    if (a.logits[i] > a.logits[a.index]) a.index = i;
  }
}
void argmax_of_bits(argmax::Args& a) {  // order of the bit patterns: -0 below +0
  const auto key = [](float v) { return num::ordered(num::bits_of(v), 32) - (std::signbit(v) ? 1 : 0); };
  a.index = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    if (!num::is_finite(a.logits[i])) {
      a.index = -1;
      return;
    }
    if (key(a.logits[i]) > key(a.logits[a.index])) a.index = i;
  }
}
void argmax_of_lanes(argmax::Args& a) {  // eight lanes, the lowest lane of equals instead of the lowest index
  int64_t best[8];
  int64_t lanes = std::min<int64_t>(8, a.count);
  for (int64_t i = 0; i < lanes; ++i) best[i] = i;
  for (int64_t i = 0; i < a.count; ++i) {
    if (!num::is_finite(a.logits[i])) {
      a.index = -1;
      return;
    }
    if (a.logits[i] > a.logits[best[i % 8]]) best[i % 8] = i;
  }
  a.index = best[0];
  for (int64_t i = 1; i < lanes; ++i)
    if (a.logits[best[i]] > a.logits[a.index]) a.index = best[i];
}

// nll
template <class Term>
void nll_by(nll::Args& a, Term term) {
  float max = a.logits[0];
  for (int64_t i = 0; i < a.count; ++i) {
    if (!num::is_finite(a.logits[i])) {
      a.result = -1;
      return;
    }
    max = std::max(max, a.logits[i]);
  }
  uint64_t sum = 0;
  for (int64_t i = 0; i < a.count; ++i) sum += term(a.logits[i], max);
  a.result = nll::finish(sum, max, a.logits[a.target]);
}
void nll_truncated_terms(nll::Args& a) {
  nll_by(a, [](float l, float max) { return static_cast<uint64_t>(0x1p40f * num::exp2_5((l - max) * num::kLog2E)); });
}
void nll_library_exp(nll::Args& a) {
  nll_by(a, [](float l, float max) { return static_cast<uint64_t>(num::rne64(0x1p40f * std::exp(l - max))); });
}
void nll_exp2_3(nll::Args& a) {
  nll_by(a,
         [](float l, float max) { return static_cast<uint64_t>(num::rne64(0x1p40f * num::exp2_3((l - max) * num::kLog2E))); });
}
void nll_float_sum(nll::Args& a) {
  float max = a.logits[0], sum = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    if (!num::is_finite(a.logits[i])) {
      a.result = -1;
      return;
    }
    max = std::max(max, a.logits[i]);
  }
  for (int64_t i = 0; i < a.count; ++i) sum += num::exp2_5((a.logits[i] - max) * num::kLog2E);
  a.result = nll::finish(static_cast<uint64_t>(sum * 0x1p40f), max, a.logits[a.target]);
}
void nll_library_log(nll::Args& a) {
  nll_by(a, nll::term);
  if (a.result < 0) return;
  float max = *std::max_element(a.logits, a.logits + a.count);
  uint64_t sum = 0;
  for (int64_t i = 0; i < a.count; ++i) sum += nll::term(a.logits[i], max);
  a.result += std::llround(std::log2(static_cast<double>(sum)) * 0x1p24) - nll::log2_q24(sum);
}

// quant_rows
template <int32_t (*kCode)(float x, float top, int width)>
void quant_by(const quant_rows::Args& a) {
  quant_rows::reference(a);
  for (int64_t r = 0; r < a.rows; ++r) {
    const uint16_t* x = a.x + r * a.x_stride;
    const uint16_t top = a.absmax ? a.absmax[r] : quant_rows::row_absmax(x, a.k);
    if (quant_rows::classify(top, a.range) != quant_rows::RowKind::kNormal) continue;
    for (int64_t i = 0; i < a.k; ++i)
      a.codes[r * a.codes_stride + i] = static_cast<int16_t>(kCode(bf16_to_float(x[i]), bf16_to_float(top), a.width));
  }
}
int32_t code_divided(float x, float top, int width) { return num::rne(x / num::quant_scale(top, width)); }
int32_t code_reciprocal(float x, float top, int width) { return num::rne(x * (1.0f / num::quant_scale(top, width))); }
int32_t code_half_away(float x, float top, int width) {
  return static_cast<int32_t>(std::round(x * num::quant_multiplier(top, width)));
}
int32_t code_half_up(float x, float top, int width) {
  return static_cast<int32_t>(std::floor(x * num::quant_multiplier(top, width) + 0.5f));
}
int32_t code_truncated(float x, float top, int width) { return static_cast<int32_t>(x * num::quant_multiplier(top, width)); }
int32_t code_contracted(float x, float top, int width) {  // the magic addition fused with the product
  return static_cast<int32_t>(std::fma(x, num::quant_multiplier(top, width), 12582912.0f) - 12582912.0f);
}
int32_t code_clamped(float x, float top, int width) {
  const auto limit = static_cast<int32_t>(num::quant_top(width)) - 1;
  return std::clamp(num::rne(x * num::quant_multiplier(top, width)), -limit, limit);
}
int32_t code_down_to_minus_128(float x, float top, int width) {  // one more code below zero; goes with scale_to_128
  const float t = num::quant_top(width) + 1.0f;
  const int32_t q = num::rne(x * (t / top)), limit = static_cast<int32_t>(t);
  return q >= limit ? limit - 1 : q < -limit ? -limit : q;
}
void quant_to_minus_128(const quant_rows::Args& a) {
  quant_by<code_down_to_minus_128>(a);
  for (int64_t r = 0; r < a.rows; ++r) {
    const uint16_t top = a.absmax ? a.absmax[r] : quant_rows::row_absmax(a.x + r * a.x_stride, a.k);
    if (quant_rows::classify(top, a.range) == quant_rows::RowKind::kNormal) a.scales[r] = bf16_to_float(top) / (num::quant_top(a.width) + 1.0f);
  }
}
// Quantises by other maxima than a row's own; codes that would be too large are clamped.
void quant_by_maxima(const quant_rows::Args& a, const std::vector<uint16_t>& tops) {
  quant_rows::Args b = a;
  b.absmax = tops.data();
  quant_rows::reference(b);
  for (int64_t r = 0; r < a.rows; ++r) {
    const uint16_t top = tops[static_cast<size_t>(r)];
    if (quant_rows::classify(top, a.range) != quant_rows::RowKind::kNormal) continue;
    const float m = num::quant_multiplier(bf16_to_float(top), a.width), t = num::quant_top(a.width);
    for (int64_t i = 0; i < a.k; ++i) {
      const float q = bf16_to_float(a.x[r * a.x_stride + i]) * m;
      a.codes[r * a.codes_stride + i] = static_cast<int16_t>(q > t ? num::rne(t) : q < -t ? num::rne(-t) : num::is_nan(q) ? 0 : num::rne(q));
    }
  }
}
void quant_maximum_without_last(const quant_rows::Args& a) {
  std::vector<uint16_t> tops;
  for (int64_t r = 0; r < a.rows; ++r) tops.push_back(a.absmax ? a.absmax[r] : quant_rows::row_absmax(a.x + r * a.x_stride, a.k - 1));
  quant_by_maxima(a, tops);
}
void quant_maximum_of_all_rows(const quant_rows::Args& a) {
  uint16_t top = 0;
  for (int64_t r = 0; r < a.rows; ++r) top = std::max(top, a.absmax ? a.absmax[r] : quant_rows::row_absmax(a.x + r * a.x_stride, a.k));
  quant_by_maxima(a, std::vector<uint16_t>(static_cast<size_t>(a.rows), top));
}
void quant_maximum_of_row_before(const quant_rows::Args& a) {  // the first row of a call has its own
  std::vector<uint16_t> tops;
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t from = std::max<int64_t>(0, r - 1);
    tops.push_back(a.absmax ? a.absmax[from] : quant_rows::row_absmax(a.x + from * a.x_stride, a.k));
  }
  quant_by_maxima(a, tops);
}

// Flushing subnormals changes no code: a row with codes other than 0 has a magnitude of 2^-72 or more (attention: 2^-40), so a subnormal x
// gives |x * m| < 2^-126 * 16256 * 2^72 < 1/2, code 0, and scales are normal (QuantRows.FlushingSubnormalsChangesNoCode).
int32_t code_flushed(float x, float multiplier) {
  const auto flushed = [](float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; };
  return num::rne(flushed(flushed(x) * flushed(multiplier)));
}
// Adding and subtracting 1.5 * 2^23 in two steps rounds to the nearest even integer: |q| <= 2^22.
int32_t code_magic(float x, float multiplier) {
  const volatile float product = x * multiplier, sum = product + 12582912.0f;
  return static_cast<int32_t>(sum - 12582912.0f);
}
// By the rule's own scale and multiplier.
template <int32_t (*kCode)(float x, float multiplier)>
void quant_equal(const quant_rows::Args& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const uint16_t* x = a.x + r * a.x_stride;
    const float m = quant_rows::begin_row(a, r, a.absmax ? a.absmax[r] : quant_rows::row_absmax(x, a.k));
    for (int64_t i = 0; i < a.k; ++i) a.codes[r * a.codes_stride + i] = m == 0 ? int16_t{0} : static_cast<int16_t>(kCode(bf16_to_float(x[i]), m));
  }
}

void quant_float_maximum(const quant_rows::Args& a) {  // fmax passes over NaN
  std::vector<uint16_t> tops;
  for (int64_t r = 0; r < a.rows; ++r) {
    float top = 0;
    for (int64_t i = 0; i < a.k; ++i) top = std::fmax(top, std::fabs(bf16_to_float(a.x[r * a.x_stride + i])));
    tops.push_back(a.absmax ? a.absmax[r] : float_to_bf16(top));
  }
  quant_rows::Args b = a;
  b.absmax = tops.data();
  quant_rows::reference(b);
}
void quant_zero_scale(const quant_rows::Args& a) {
  quant_rows::reference(a);
  for (int64_t r = 0; r < a.rows; ++r)
    if (a.scales[r] == 1.0f && quant_rows::row_absmax(a.x + r * a.x_stride, a.k) == 0) a.scales[r] = 0.0f;
}
void quant_own_maximum(const quant_rows::Args& a) {
  quant_rows::Args b = a;
  b.absmax = nullptr;
  quant_rows::reference(b);
}
void quant_scale_by_reciprocal(const quant_rows::Args& a) {
  quant_rows::reference(a);
  for (int64_t r = 0; r < a.rows; ++r)
    if (a.scales[r] != 1.0f)
      a.scales[r] = bf16_to_float(a.absmax ? a.absmax[r] : quant_rows::row_absmax(a.x + r * a.x_stride, a.k)) *
                    (1.0f / num::quant_top(a.width));
}
// Power-of-two scales with another exponent; rows with other scales stay right.
template <int (*Exponent)(uint16_t)>
void quant_pow2_by(const quant_rows::Args& a) {
  quant_rows::reference(a);
  for (int64_t r = 0; r < a.rows; ++r) {
    const uint16_t top = a.absmax ? a.absmax[r] : quant_rows::row_absmax(a.x + r * a.x_stride, a.k);
    if (!a.range.pow2_scale || quant_rows::classify(top, a.range) != quant_rows::RowKind::kNormal) continue;
    const int e = Exponent(top) - (a.width == 8 ? 0 : 7);
    a.scales[r] = num::pow2(e);
    for (int64_t i = 0; i < a.k; ++i) a.codes[r * a.codes_stride + i] = quant_rows::code(a.x[r * a.x_stride + i], num::pow2(-e));
  }
}
int exponent_alone(uint16_t top) { return (top >> 7) - 127 - 6; }
int exponent_nearest(uint16_t top) { return static_cast<int>(std::nearbyint(std::log2(bf16_to_float(top) / 127.0))); }

// rmsnorm
struct RowSum {
  int64_t sum;
  int e_max;
};
RowSum exact_sum(const uint16_t* x, int64_t d) {
  RowSum s{0, 1};
  for (int64_t i = 0; i < d; ++i) s.e_max = std::max(s.e_max, rmsnorm::exponent_of(x[i]));
  for (int64_t i = 0; i < d; ++i) s.sum += rmsnorm::square_term(x[i], s.e_max);
  return s;
}
float factor_of(const rmsnorm::Args& a, const uint16_t* x) {
  const RowSum s = exact_sum(x, a.d);
  return rmsnorm::reciprocal_rms(s.sum, s.e_max, a.d, a.eps);
}
template <float (*kFactor)(const rmsnorm::Args&, const uint16_t*)>
void rmsnorm_by(const rmsnorm::Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const float r = kFactor(a, a.x + row * a.x_stride);
    for (int64_t i = 0; i < a.d; ++i) a.y[row * a.y_stride + i] = rmsnorm::scaled(a.x[row * a.x_stride + i], r, a.weight[i]);
  }
}
void rmsnorm_one_rounding(const rmsnorm::Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const uint16_t* x = a.x + row * a.x_stride;
    const float r = factor_of(a, x);
    for (int64_t i = 0; i < a.d; ++i)
      a.y[row * a.y_stride + i] = float_to_bf16(bf16_to_float(x[i]) * r * bf16_to_float(a.weight[i]));
  }
}
float mean_of(const RowSum& s, int64_t d) {
  return num::ldexp_rn(num::i2f(s.sum), 2 * (s.e_max - 134) - 26) / static_cast<float>(d);
}
float factor_exact_rsqrt(const rmsnorm::Args& a, const uint16_t* x) {  // one rounding where the rule has two
  const float mean = mean_of(exact_sum(x, a.d), a.d);
  return num::is_finite(mean) ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(mean + a.eps)))
                              : bf16_to_float(num::kBf16Nan);
}
float factor_approximate(const rmsnorm::Args& a,
                         const uint16_t* x) {  // as an rsqrt with 12 good bits and one Newton step gives it
  const float mean = mean_of(exact_sum(x, a.d), a.d);
  if (!num::is_finite(mean)) return bf16_to_float(num::kBf16Nan);
  const float v = mean + a.eps, guess = num::float_of(num::bits_of(1.0f / std::sqrt(v)) & 0xFFFFF800u);
  return guess * (1.5f - 0.5f * v * guess * guess);
}
float factor_float_sum(const rmsnorm::Args& a, const uint16_t* x) {
  float sum = 0;
  for (int64_t i = 0; i < a.d; ++i) sum += bf16_to_float(x[i]) * bf16_to_float(x[i]);
  const float mean = sum / static_cast<float>(a.d);
  return num::is_finite(mean) ? 1.0f / std::sqrt(mean + a.eps) : bf16_to_float(num::kBf16Nan);
}
float factor_shift_modulo(const rmsnorm::Args& a, const uint16_t* x) {
  RowSum s{0, exact_sum(x, a.d).e_max};
  for (int64_t i = 0; i < a.d; ++i) {
    const int64_t m = rmsnorm::significand_of(x[i]) * rmsnorm::significand_of(x[i]) << 26;
    s.sum += m >> (2 * (s.e_max - rmsnorm::exponent_of(x[i])) & 63);
  }
  return rmsnorm::reciprocal_rms(s.sum, s.e_max, a.d, a.eps);
}
float factor_double_sum(const rmsnorm::Args& a, const uint16_t* x) {
  const RowSum s = exact_sum(x, a.d);
  const float sum = static_cast<float>(static_cast<double>(s.sum));  // two roundings
  const float mean = num::ldexp_rn(sum, 2 * (s.e_max - 134) - 26) / static_cast<float>(a.d);
  return num::is_finite(mean) ? 1.0f / std::sqrt(mean + a.eps) : bf16_to_float(num::kBf16Nan);
}
float factor_zero_on_overflow(const rmsnorm::Args& a, const uint16_t* x) {
  return 1.0f / std::sqrt(mean_of(exact_sum(x, a.d), a.d) + a.eps);
}
float factor_epsilon_outside(const rmsnorm::Args& a, const uint16_t* x) {
  const float mean = mean_of(exact_sum(x, a.d), a.d);
  return num::is_finite(mean) ? 1.0f / (std::sqrt(mean) + a.eps) : bf16_to_float(num::kBf16Nan);
}
float factor_without_epsilon(const rmsnorm::Args& a, const uint16_t* x) {
  const float mean = mean_of(exact_sum(x, a.d), a.d);
  return num::is_finite(mean) ? 1.0f / std::sqrt(mean) : bf16_to_float(num::kBf16Nan);
}
float factor_of_one_fewer(const rmsnorm::Args& a, const uint16_t* x) {  // the mean of a sample: divided by D - 1
  const RowSum s = exact_sum(x, a.d);
  return rmsnorm::reciprocal_rms(s.sum, s.e_max, std::max<int64_t>(1, a.d - 1), a.eps);
}
float factor_without_last(const rmsnorm::Args& a, const uint16_t* x) {
  const RowSum s = exact_sum(x, a.d);
  return rmsnorm::reciprocal_rms(s.sum - rmsnorm::square_term(x[a.d - 1], s.e_max), s.e_max, a.d, a.eps);
}
void rmsnorm_not_in_place(const rmsnorm::Args& a) {  // clears its output first
  for (int64_t row = 0; row < a.rows; ++row) std::fill(a.y + row * a.y_stride, a.y + row * a.y_stride + a.d, uint16_t{0});
  rmsnorm::reference(a);
}

}  // namespace

std::span<const Variant<argmax::Fn>> of_argmax() {
  static constexpr Variant<argmax::Fn> kTable[] = {
      {"last of equals", Needs::kNothing, argmax_last},
      {"NaN wins", Needs::kNothing, argmax_without_nan_check<true>},
      {"NaN passed over", Needs::kNothing, argmax_without_nan_check<false>},
      {"order of bits", Needs::kNothing, argmax_of_bits},
      {"order of lanes", Needs::kNothing, argmax_of_lanes},
  };
  return kTable;
}

std::span<const Variant<nll::Fn>> of_nll() {
  static constexpr Variant<nll::Fn> kTable[] = {
      {"terms truncated", Needs::kNothing, nll_truncated_terms}, {"the library's exp", Needs::kNothing, nll_library_exp},
      {"attention's exponential", Needs::kNothing, nll_exp2_3},  {"sum in floating point", Needs::kNothing, nll_float_sum},
      {"the library's log2", Needs::kNothing, nll_library_log},
  };
  return kTable;
}

std::span<const Variant<quant_rows::Fn>> of_quant_rows() {
  static constexpr Variant<quant_rows::Fn> kTable[] = {
      {"x / s", Needs::kNothing, quant_by<code_divided>},
      {"x * (1 / s)", Needs::kNothing, quant_by<code_reciprocal>},
      {"ties away from zero", Needs::kNothing, quant_by<code_half_away>},
      {"ties upwards", Needs::kNothing, quant_by<code_half_up>},
      {"truncated", Needs::kNothing, quant_by<code_truncated>},
      {"contracted magic addition", Needs::kNothing, quant_by<code_contracted>},
      {"clamped one short", Needs::kNothing, quant_by<code_clamped>},
      {"codes down to -128", Needs::kNothing, quant_to_minus_128},
      {"maximum without the last element", Needs::kNothing, quant_maximum_without_last},
      {"maximum of all rows", Needs::kNothing, quant_maximum_of_all_rows},
      {"maximum of the row before", Needs::kNothing, quant_maximum_of_row_before},
      {"floating-point maximum", Needs::kNothing, quant_float_maximum},
      {"scale 0 of a zero row", Needs::kNothing, quant_zero_scale},
      {"given maxima ignored", Needs::kNothing, quant_own_maximum},
      {"scale by a reciprocal", Needs::kNothing, quant_scale_by_reciprocal},
      {"power of two from the exponent alone", Needs::kNothing, quant_pow2_by<exponent_alone>},
      {"nearest power of two", Needs::kNothing, quant_pow2_by<exponent_nearest>},
  };
  return kTable;
}

std::span<const Variant<quant_rows::Fn>> equivalents_of_quant_rows() {
  static constexpr Variant<quant_rows::Fn> kTable[] = {
      {"subnormals flushed", Needs::kNothing, quant_equal<code_flushed>},
      {"magic addition in two steps", Needs::kNothing, quant_equal<code_magic>},
  };
  return kTable;
}

std::span<const Variant<rmsnorm::Fn>> of_rmsnorm() {
  static constexpr Variant<rmsnorm::Fn> kTable[] = {
      {"one rounding instead of two", Needs::kNothing, rmsnorm_one_rounding},
      {"reciprocal square root rounded once", Needs::kNothing, rmsnorm_by<factor_exact_rsqrt>},
      {"approximate reciprocal square root", Needs::kNothing, rmsnorm_by<factor_approximate>},
      {"sum in floating point", Needs::kNothing, rmsnorm_by<factor_float_sum>},
      {"shifts modulo 64", Needs::kNothing, rmsnorm_by<factor_shift_modulo>},
      {"sum converted by way of binary64", Needs::kNothing, rmsnorm_by<factor_double_sum>},
      {"zeros on overflow", Needs::kNothing, rmsnorm_by<factor_zero_on_overflow>},
      {"epsilon outside the root", Needs::kNothing, rmsnorm_by<factor_epsilon_outside>},
      {"epsilon left out", Needs::kNothing, rmsnorm_by<factor_without_epsilon>},
      {"divided by one element fewer", Needs::kNothing, rmsnorm_by<factor_of_one_fewer>},
      {"last element left out", Needs::kNothing, rmsnorm_by<factor_without_last>},
      {"not in place", Needs::kNothing, rmsnorm_not_in_place},
  };
  return kTable;
}

}  // namespace zeroulp::ops::mutants
