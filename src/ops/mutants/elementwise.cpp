#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/mutants/mutants.h"

namespace zeroulp::ops::mutants {
namespace {

using num::bf16_to_float;
using num::float_to_bf16;

uint16_t truncated_bf16(float v) {
  const uint32_t b = num::bits_of(v);
  return num::is_nan(v) ? num::kBf16Nan : static_cast<uint16_t>(b >> 16);
}
uint16_t half_away_bf16(float v) {
  return num::is_nan(v) ? num::kBf16Nan : static_cast<uint16_t>((num::bits_of(v) + 0x8000u) >> 16);
}
uint16_t careless_bf16(float v) {  // no case for NaN: a low payload rounds to Inf
  const uint32_t b = num::bits_of(v);
  return static_cast<uint16_t>((b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
}
float flushed(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }

// residual
template <uint16_t (*kRound)(float)>
void residual_by(const residual::Args& a) {
  for (int64_t i = 0; i < a.count; ++i) a.x[i] = kRound(bf16_to_float(a.x[i]) + bf16_to_float(a.y[i]));
}
void residual_flushed(const residual::Args& a) {
  for (int64_t i = 0; i < a.count; ++i)
    a.x[i] = float_to_bf16(flushed(flushed(bf16_to_float(a.x[i])) + flushed(bf16_to_float(a.y[i]))));
}
void residual_without_tail(const residual::Args& a) {
  for (int64_t i = 0; i < a.count / 8 * 8; ++i) a.x[i] = residual::sum(a.x[i], a.y[i]);
}

// The sum of two bf16 in binary64 and then in binary32: 24 >= 2 * 8 + 2 bits, so a second rounding is harmless.
void residual_by_way_of_binary64(const residual::Args& a) {
  for (int64_t i = 0; i < a.count; ++i)
    a.x[i] = float_to_bf16(static_cast<float>(static_cast<double>(bf16_to_float(a.x[i])) + static_cast<double>(bf16_to_float(a.y[i]))));
}

// embedding
void embedding_bf16_scale(const embedding::Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const float scale = bf16_to_float(float_to_bf16(a.scales[a.tokens[row]]));
    for (int64_t i = 0; i < a.k; ++i) a.y[row * a.k + i] = embedding::value(a.codes[a.tokens[row] * a.k + i], scale);
  }
}
void embedding_half_away(const embedding::Args& a) {
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t i = 0; i < a.k; ++i)
      a.y[row * a.k + i] = half_away_bf16(a.scales[a.tokens[row]] * static_cast<float>(a.codes[a.tokens[row] * a.k + i]));
}
// The row's number for the token, as far as the table is known to reach.
void embedding_scale_of_row(const embedding::Args& a) {
  const int64_t last = a.rows > 0 ? *std::max_element(a.tokens, a.tokens + a.rows) : 0;
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t i = 0; i < a.k; ++i) a.y[row * a.k + i] = embedding::value(a.codes[a.tokens[row] * a.k + i], a.scales[std::min(row, last)]);
}

// silu_mul
template <uint16_t (*kValue)(float g, float u)>
void silu_by(const silu_mul::Args& a) {
  for (int64_t i = 0; i < a.count; ++i) a.y[i] = kValue(bf16_to_float(a.gate[i]), bf16_to_float(a.up[i]));
}
float silu_of(float g) { return g / (1.0f + num::exp2_5(-g * num::kLog2E)); }
uint16_t silu_one_rounding(float g, float u) { return float_to_bf16(silu_of(g) * u); }
uint16_t silu_library_exp(float g, float u) {
  return float_to_bf16(bf16_to_float(float_to_bf16(g / (1.0f + std::exp(-g)))) * u);
}
uint16_t silu_quotient_off(float g, float u) {  // one unit too large, as an approximate division may be
  const float q = silu_of(g);
  return float_to_bf16(bf16_to_float(float_to_bf16(num::is_finite(q) ? std::nextafter(q, INFINITY) : q)) * u);
}
uint16_t silu_without_clamp(float g, float u) {
  const auto [k, f] = num::split_nearest(-g * num::kLog2E);
  const float e = num::is_finite(k) ? std::ldexp(num::exp2_5(f), static_cast<int>(k))
                  : k > 0           ? INFINITY
                  : num::is_nan(k)  ? k
                                    : 0.0f;
  return float_to_bf16(bf16_to_float(float_to_bf16(g / (1.0f + e))) * u);
}
uint16_t silu_clamp_loses_nan(float g, float u) {
  const float d = -g * num::kLog2E > -126.0f ? -g * num::kLog2E : -126.0f;  // NaN compares false
  return float_to_bf16(bf16_to_float(float_to_bf16(num::is_nan(g) ? 0.0f / (1.0f + num::exp2_5(d)) : silu_of(g))) * u);
}
uint16_t silu_swapped(float g, float u) { return silu_mul::value(float_to_bf16(u), float_to_bf16(g)); }

// mul(g, div_rn(1, d)) rounds to the same bf16 as div_rn(g, d) for all 65,536 gates.
uint16_t silu_by_reciprocal(float g, float u) {
  return float_to_bf16(bf16_to_float(float_to_bf16(g * (1.0f / (1.0f + num::exp2_5(-g * num::kLog2E))))) * u);
}
uint16_t silu_bf16_exponential(float g, float u) {
  const float e = bf16_to_float(float_to_bf16(num::exp2_5(-g * num::kLog2E)));
  return float_to_bf16(bf16_to_float(float_to_bf16(g / (1.0f + e))) * u);
}

// rope
template <rope::Pair (*kRotate)(float a, float b, float c, float s)>
void rope_by(const rope::Args& a) {
  const int64_t half = a.d / 2;
  for (int64_t row = 0; row < a.rows; ++row) {
    for (int64_t head = 0; head < a.heads; ++head) {
      uint16_t* x = a.x + row * a.x_stride + head * a.d;
      for (int64_t i = 0; i < half; ++i) {
        const int64_t at = a.positions[row] * half + i;
        const rope::Pair y =
            kRotate(bf16_to_float(x[i]), bf16_to_float(x[i + half]), bf16_to_float(a.cos[at]), bf16_to_float(a.sin[at]));
        x[i] = y.first;
        x[i + half] = y.second;
      }
    }
  }
}
rope::Pair rope_contracted(float a, float b, float c, float s) {
  return {float_to_bf16(std::fma(a, c, -(b * s))), float_to_bf16(std::fma(b, c, a * s))};
}
rope::Pair rope_three_roundings(float a, float b, float c, float s) {
  const auto r = [](float v) { return bf16_to_float(float_to_bf16(v)); };
  return {float_to_bf16(r(a * c) - r(b * s)), float_to_bf16(r(b * c) + r(a * s))};
}
rope::Pair rope_backwards(float a, float b, float c, float s) {
  return {float_to_bf16(a * c + b * s), float_to_bf16(b * c - a * s)};
}
void rope_interleaved(const rope::Args& a) {
  const int64_t half = a.d / 2;
  for (int64_t row = 0; row < a.rows; ++row) {
    for (int64_t head = 0; head < a.heads; ++head) {
      uint16_t* x = a.x + row * a.x_stride + head * a.d;
      for (int64_t i = 0; i < half; ++i) {
        const rope::Pair y =
            rope::rotate(x[2 * i], x[2 * i + 1], a.cos[a.positions[row] * half + i], a.sin[a.positions[row] * half + i]);
        x[2 * i] = y.first;
        x[2 * i + 1] = y.second;
      }
    }
  }
}
rope::Pair rope_good(float a, float b, float c, float s) {
  return rope::rotate(float_to_bf16(a), float_to_bf16(b), float_to_bf16(c), float_to_bf16(s));
}
void rope_row_for_position(const rope::Args& a) {
  std::vector<int32_t> rows(static_cast<size_t>(a.rows));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
  rope::Args b = a;
  b.positions = rows.data();
  rope_by<rope_good>(b);
}

void rope_by_positions(const rope::Args& a, int32_t (*position)(int32_t)) {
  std::vector<int32_t> positions(a.positions, a.positions + a.rows);
  for (int32_t& p : positions) p = position(p);
  rope::Args b = a;
  b.positions = positions.data();
  rope_by<rope_good>(b);
}
void rope_one_position_earlier(const rope::Args& a) {
  rope_by_positions(a, [](int32_t p) { return std::max(0, p - 1); });
}
void rope_positions_of_8_bits(const rope::Args& a) {  // significant ones, as a bf16 has
  rope_by_positions(a, [](int32_t p) { return static_cast<int32_t>(num::float_of(num::bits_of(static_cast<float>(p)) & 0xFFFF0000u)); });
}

// Entries of the table.
num::SinCosBf16 table_angle_in_fp32(uint32_t position, float frequency, float factor) {
  const float angle = static_cast<float>(position) * frequency;
  return {float_to_bf16(factor * std::cos(angle)), float_to_bf16(factor * std::sin(angle))};
}
num::SinCosBf16 table_truncated(uint32_t position, float frequency, float factor) {
  const double angle = static_cast<double>(position) * static_cast<double>(frequency);
  return {truncated_bf16(static_cast<float>(factor * std::cos(angle))), truncated_bf16(static_cast<float>(factor * std::sin(angle)))};
}
num::SinCosBf16 table_bf16_angle(uint32_t position, float frequency, float factor) {
  const float angle = bf16_to_float(float_to_bf16(static_cast<float>(position) * frequency));
  return {float_to_bf16(factor * std::cos(angle)), float_to_bf16(factor * std::sin(angle))};
}

}  // namespace

std::span<const Variant<rope::TableFn>> of_rope_table() {
  static constexpr Variant<rope::TableFn> kTable[] = {
      {"angle in fp32", Needs::kNothing, table_angle_in_fp32},
      {"entries truncated", Needs::kNothing, table_truncated},
      {"angle in bf16", Needs::kNothing, table_bf16_angle},
  };
  return kTable;
}

std::span<const Variant<residual::Fn>> equivalents_of_residual() {
  static constexpr Variant<residual::Fn> kTable[] = {{"by way of binary64", Needs::kNothing, residual_by_way_of_binary64}};
  return kTable;
}

std::span<const Variant<silu_mul::Fn>> equivalents_of_silu_mul() {
  static constexpr Variant<silu_mul::Fn> kTable[] = {{"times a reciprocal", Needs::kNothing, silu_by<silu_by_reciprocal>}};
  return kTable;
}

std::span<const Variant<residual::Fn>> of_residual() {
  static constexpr Variant<residual::Fn> kTable[] = {
      {"truncated to bf16", Needs::kNothing, residual_by<truncated_bf16>},
      {"ties away from zero", Needs::kNothing, residual_by<half_away_bf16>},
      {"NaN of low payload rounded to Inf", Needs::kNothing, residual_by<careless_bf16>},
      {"subnormals flushed", Needs::kNothing, residual_flushed},
      {"tail left out", Needs::kNothing, residual_without_tail},
  };
  return kTable;
}

std::span<const Variant<embedding::Fn>> of_embedding() {
  static constexpr Variant<embedding::Fn> kTable[] = {
      {"scale kept in bf16", Needs::kNothing, embedding_bf16_scale},
      {"ties away from zero", Needs::kNothing, embedding_half_away},
      {"scale of the row, not of the token", Needs::kNothing, embedding_scale_of_row},
  };
  return kTable;
}

std::span<const Variant<silu_mul::Fn>> of_silu_mul() {
  static constexpr Variant<silu_mul::Fn> kTable[] = {
      {"one rounding instead of two", Needs::kNothing, silu_by<silu_one_rounding>},
      {"the library's exp", Needs::kNothing, silu_by<silu_library_exp>},
      {"quotient one unit off", Needs::kNothing, silu_by<silu_quotient_off>},
      {"no clamp", Needs::kNothing, silu_by<silu_without_clamp>},
      {"a clamp that loses NaN", Needs::kNothing, silu_by<silu_clamp_loses_nan>},
      {"exponential in bf16", Needs::kNothing, silu_by<silu_bf16_exponential>},
      {"gate and up exchanged", Needs::kNothing, silu_by<silu_swapped>},
  };
  return kTable;
}

std::span<const Variant<rope::Fn>> of_rope() {
  static constexpr Variant<rope::Fn> kTable[] = {
      {"contracted fma", Needs::kNothing, rope_by<rope_contracted>},
      {"three roundings", Needs::kNothing, rope_by<rope_three_roundings>},
      {"turned backwards", Needs::kNothing, rope_by<rope_backwards>},
      {"interleaved pairs", Needs::kNothing, rope_interleaved},
      {"row number for position", Needs::kNothing, rope_row_for_position},
      {"one position earlier", Needs::kNothing, rope_one_position_earlier},
      {"positions of 8 bits", Needs::kNothing, rope_positions_of_8_bits},
  };
  return kTable;
}

}  // namespace zeroulp::ops::mutants
