#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "num/fp16.h"
#include "ops/mutants/dot.h"
#include "ops/mutants/mutants.h"

namespace zeroulp::ops::mutants {
namespace {

using linear_s8::Args;
using linear_s8::Output;

float through_bf16(float v) { return num::bf16_to_float(num::float_to_bf16(v)); }

linear_s8::Fn* fastest() {
  static linear_s8::Fn* const run = [] {
    const auto best = select("linear_s8", linear_s8::variants(), "", cpu_features());
    ZU_CHECK(best.has_value());
    return best->run;
  }();
  return run;
}

// The exact sums [rows, n] over columns [begin, end).
void exact_sums(Args a, int64_t begin, int64_t end, std::vector<int64_t>& sums) {
  sums.assign(static_cast<size_t>(a.rows * a.n), 0);
  if (begin >= end) return;
  a.codes += begin;
  a.weights += begin;
  a.k = end - begin;
  a.output = Output::kPartial;
  a.y = sums.data();
  a.y_stride = a.n;
  fastest()(a);
}
std::vector<int64_t>& exact_sums(const Args& a) {
  thread_local std::vector<int64_t> sums;
  exact_sums(a, 0, a.k, sums);
  return sums;
}

using Round = uint16_t(float);
template <Round* kRound = num::float_to_bf16>
void put(const Args& a, int64_t row, int64_t c, float y) {
  const int64_t at = row * a.y_stride + c;
  if (a.output == Output::kF32)
    static_cast<float*>(a.y)[at] = y;
  else
    static_cast<uint16_t*>(a.y)[at] = kRound(y);
}
const float* bias_of(const Args& a, int64_t c) { return a.bias ? a.bias + c : nullptr; }

// A wrong way from the exact sum to the result.
using Epilogue = float(int64_t acc, float sa, float sb, const float* bias);
template <Epilogue* kEpilogue, Round* kRound = num::float_to_bf16>
void by_epilogue(const Args& a) {
  if (a.output == Output::kPartial) return fastest()(a);
  const std::vector<int64_t>& sums = exact_sums(a);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t c = 0; c < a.n; ++c)
      put<kRound>(a, row, c, kEpilogue(sums[static_cast<size_t>(row * a.n + c)], a.row_scales[row], a.channel_scales[c], bias_of(a, c)));
}
float good(int64_t acc, float sa, float sb, const float* bias) { return linear_s8::epilogue(num::i2f(acc), sa, sb, bias); }
float premultiplied(int64_t acc, float sa, float sb, const float* bias) {
  return bias ? std::fma(num::i2f(acc), sa * sb, *bias) : num::i2f(acc) * (sa * sb);
}
float activation_first(int64_t acc, float sa, float sb, const float* bias) {
  return bias ? std::fma(sb, sa * num::i2f(acc), *bias) : sb * (sa * num::i2f(acc));
}
float bias_added(int64_t acc, float sa, float sb, const float* bias) {
  return bias ? sa * (sb * num::i2f(acc)) + *bias : good(acc, sa, sb, bias);
}
float bias_in_bf16(int64_t acc, float sa, float sb, const float* bias) {
  const float y = good(acc, sa, sb, nullptr);
  return bias ? through_bf16(y) + through_bf16(*bias) : y;
}
float bias_left_out(int64_t acc, float sa, float sb, const float*) { return good(acc, sa, sb, nullptr); }
float bf16_between(int64_t acc, float sa, float sb, const float* bias) {
  const float scaled = through_bf16(sb * num::i2f(acc));
  return bias ? std::fma(sa, scaled, *bias) : sa * scaled;
}
float bf16_twice(int64_t acc, float sa, float sb, const float* bias) {  // the sum and its product with sA are bf16
  const float y = sb * through_bf16(sa * through_bf16(num::i2f(acc)));
  return bias ? through_bf16(y) + through_bf16(*bias) : y;
}
float channel_scale_in_bf16(int64_t acc, float sa, float sb, const float* bias) { return good(acc, sa, through_bf16(sb), bias); }
float row_scale_in_bf16(int64_t acc, float sa, float sb, const float* bias) { return good(acc, through_bf16(sa), sb, bias); }
float channel_scale_one_unit_off(int64_t acc, float sa, float sb, const float* bias) {
  return good(acc, sa, num::float_of(num::bits_of(sb) + 1), bias);
}
float rounded_once(int64_t acc, float sa, float sb, const float* bias) {  // in binary64: more exact than the rule
  const double y = static_cast<double>(acc) * sa * sb;
  return static_cast<float>(bias ? y + *bias : y);
}
float by_way_of_tf32(int64_t acc, float sa, float sb, const float* bias) {  // 10 bits of fraction first
  const uint32_t b = num::bits_of(good(acc, sa, sb, bias));
  return num::float_of((b + 0xFFFu + ((b >> 13) & 1u)) & 0xFFFFE000u);
}
float truncated_conversion(int64_t acc, float sa, float sb, const float* bias) {
  float f = num::i2f(acc);
  if (std::fabs(static_cast<double>(f)) > std::fabs(static_cast<double>(acc))) f = std::nextafter(f, 0.0f);
  return linear_s8::epilogue(f, sa, sb, bias);
}
float fast_conversion(int64_t acc, float sa, float sb, const float* bias) {  // right below 2^22 only
  const float f = num::float_of(static_cast<uint32_t>(0x4B400000 + acc)) - 12582912.0f;
  return linear_s8::epilogue(f, sa, sb, bias);
}
float wrapped_sum(int64_t acc, float sa, float sb, const float* bias) {
  return linear_s8::epilogue(num::i2f(static_cast<int32_t>(acc)), sa, sb, bias);
}
uint16_t truncated_bf16(float v) { return num::is_nan(v) ? num::kBf16Nan : static_cast<uint16_t>(num::bits_of(v) >> 16); }
uint16_t half_away_bf16(float v) {
  return num::is_nan(v) ? num::kBf16Nan : static_cast<uint16_t>((num::bits_of(v) + 0x8000u) >> 16);
}
void logits_in_bf16(const Args& a) {  // the head's output, and no other's
  if (a.output != Output::kF32) return fastest()(a);
  const std::vector<int64_t>& sums = exact_sums(a);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t c = 0; c < a.n; ++c)
      put(a, row, c, through_bf16(good(sums[static_cast<size_t>(row * a.n + c)], a.row_scales[row], a.channel_scales[c], bias_of(a, c))));
}

// Wrong sums, through the right epilogue.
void store_all(const Args& a, const std::vector<int64_t>& sums) {
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t c = 0; c < a.n; ++c) linear_s8::store(a, row, c, sums[static_cast<size_t>(row * a.n + c)]);
}
void without_last(const Args& a) {
  thread_local std::vector<int64_t> sums;
  exact_sums(a, 0, a.k - 1, sums);
  store_all(a, sums);
}
void without_tail(const Args& a) {  // K in tiles of 128, and no code for the rest
  thread_local std::vector<int64_t> sums;
  exact_sums(a, 0, a.k / 128 * 128, sums);
  store_all(a, sums);
}
void offset_kept(const Args& a) {  // unsigned codes with an offset of 128 of which 127 are taken off again
  std::vector<int64_t>& sums = exact_sums(a);
  std::vector<int64_t> of_weights(static_cast<size_t>(a.n), 0);
  for (int64_t c = 0; c < a.n; ++c)
    for (int64_t i = 0; i < a.k; ++i) of_weights[static_cast<size_t>(c)] += a.weights[c * a.weights_stride + i];
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += of_weights[i % static_cast<size_t>(a.n)];
  store_all(a, sums);
}
void saturated_pairs(const Args& a) {  // planes with an offset of 128; a pair of products is cut to 16 bits
  const auto k = static_cast<size_t>(a.k);
  std::vector<int8_t> hi(k), lo(k);
  std::vector<int64_t> correction(static_cast<size_t>(a.n), 0);
  for (int64_t c = 0; c < a.n; ++c)
    for (int64_t i = 0; i < a.k; ++i) correction[static_cast<size_t>(c)] += 128 * a.weights[c * a.weights_stride + i];
  for (int64_t row = 0; row < a.rows; ++row) {
    const int16_t* q = a.codes + row * a.codes_stride;
    for (size_t i = 0; i < k; ++i) {
      hi[i] = static_cast<int8_t>(a.width == 15 ? num::plane_hi(q[i]) : q[i]);
      lo[i] = static_cast<int8_t>(a.width == 15 ? num::plane_lo(q[i]) : 0);
    }
    for (int64_t c = 0; c < a.n; ++c) {
      const int8_t* w = a.weights + c * a.weights_stride;
      int64_t acc = dot_saturating_pairs(hi.data(), w, a.k) - correction[static_cast<size_t>(c)];
      if (a.width == 15) acc = 128 * acc + dot_saturating_pairs(lo.data(), w, a.k) - correction[static_cast<size_t>(c)];
      linear_s8::store(a, row, c, acc);
    }
  }
}
void swapped_lanes(const Args& a) {  // of the codes alone: every two of them exchanged
  std::vector<int16_t> codes(static_cast<size_t>(a.rows * a.k));
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t i = 0; i < a.k; ++i) codes[static_cast<size_t>(row * a.k + i)] = a.codes[row * a.codes_stride + ((i ^ 1) < a.k ? i ^ 1 : i)];
  Args b = a;
  b.codes = codes.data();
  b.codes_stride = a.k;
  fastest()(b);
}

// K in slices whose exact sums are joined in floating point.
using Join = float(float total, float f, float sa, float sb);
template <Join* kJoin, int64_t kSlices, int64_t kSlice>
void by_slices(const Args& a) {
  if (a.output == Output::kPartial) return fastest()(a);
  thread_local std::vector<int64_t> sums;
  std::vector<float> total(static_cast<size_t>(a.rows * a.n), 0.0f);
  const int64_t slices = kSlices > 0 ? std::min(kSlices, a.k) : (a.k + kSlice - 1) / kSlice;
  for (int64_t s = 0; s < slices; ++s) {
    const int64_t begin = kSlices > 0 ? a.k * s / slices : s * kSlice, end = kSlices > 0 ? a.k * (s + 1) / slices : std::min(a.k, begin + kSlice);
    exact_sums(a, begin, end, sums);
    for (int64_t row = 0; row < a.rows; ++row)
      for (int64_t c = 0; c < a.n; ++c) {
        const auto i = static_cast<size_t>(row * a.n + c);
        total[i] = kJoin(total[i], num::i2f(sums[i]), a.row_scales[row], a.channel_scales[c]);
      }
  }
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t c = 0; c < a.n; ++c) {
      const float y = total[static_cast<size_t>(row * a.n + c)];
      put(a, row, c, a.bias ? y + a.bias[c] : y);
    }
}
float join_f32(float total, float f, float sa, float sb) { return total + sa * (sb * f); }
float join_bf16(float total, float f, float sa, float sb) { return total + through_bf16(sa * (sb * f)); }
float join_fp16(float total, float f, float sa, float sb) {
  return num::fp16_to_float(num::float_to_fp16(total + num::fp16_to_float(num::float_to_fp16(sa * (sb * f)))));
}

void dequantised_first(const Args& a) {  // products and sums of binary32
  if (a.output == Output::kPartial) return fastest()(a);
  const auto k = static_cast<size_t>(a.k);
  std::vector<float> x(static_cast<size_t>(a.rows) * k), w(k), sums(static_cast<size_t>(a.rows));
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t i = 0; i < a.k; ++i)
      x[static_cast<size_t>(row) * k + static_cast<size_t>(i)] = num::i2f(int32_t{a.codes[row * a.codes_stride + i]}) * a.row_scales[row];
  for (int64_t c = 0; c < a.n; ++c) {
    for (int64_t i = 0; i < a.k; ++i) w[static_cast<size_t>(i)] = num::i2f(int32_t{a.weights[c * a.weights_stride + i]}) * a.channel_scales[c];
    dots_f32(x.data(), a.rows, w.data(), a.k, sums.data());
    for (int64_t row = 0; row < a.rows; ++row) {
      const float y = sums[static_cast<size_t>(row)];
      put(a, row, c, a.bias ? y + a.bias[c] : y);
    }
  }
}

// Planes joined in fp32 without looking at their size: in the head alone.
void planes_in_fp32(const Args& a) {
  if (a.width == 8 || a.output != Output::kF32) return fastest()(a);
  std::vector<int16_t> planes(static_cast<size_t>(a.rows * a.k));
  std::vector<int64_t> sums[2];
  for (const int plane : {0, 1}) {
    for (int64_t row = 0; row < a.rows; ++row)
      for (int64_t i = 0; i < a.k; ++i) {
        const int32_t q = a.codes[row * a.codes_stride + i];
        planes[static_cast<size_t>(row * a.k + i)] = static_cast<int16_t>(plane == 0 ? num::plane_hi(q) : num::plane_lo(q));
      }
    Args b = a;
    b.codes = planes.data();
    b.codes_stride = a.k;
    exact_sums(b, 0, b.k, sums[plane]);
  }
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t c = 0; c < a.n; ++c) {
      const auto i = static_cast<size_t>(row * a.n + c);
      const float f = std::fma(128.0f, num::i2f(sums[0][i]), num::i2f(sums[1][i]));
      put(a, row, c, linear_s8::epilogue(f, a.row_scales[row], a.channel_scales[c], bias_of(a, c)));
    }
}

// Wrong scales. Channels are those of one call: a kernel is given parts of a linear.
void neighbours_channel_scale(const Args& a) {
  Args b = a;
  std::vector<float> scales(a.channel_scales, a.channel_scales + a.n);
  std::rotate(scales.begin(), scales.begin() + (a.n > 1), scales.end());
  b.channel_scales = scales.data();
  fastest()(b);
}
void first_rows_scale(const Args& a) {
  Args b = a;
  const std::vector<float> scales(static_cast<size_t>(a.rows), a.row_scales[0]);
  b.row_scales = scales.data();
  fastest()(b);
}
void row_befores_scale(const Args& a) {  // left over from the row before
  Args b = a;
  std::vector<float> scales(a.row_scales, a.row_scales + a.rows);
  std::rotate(scales.begin(), scales.end() - (a.rows > 1), scales.end());
  if (a.rows > 1) scales[0] = a.row_scales[0];
  b.row_scales = scales.data();
  fastest()(b);
}
void one_channel_scale(const Args& a) {  // an array of n scales read as one scale
  Args b = a;
  const std::vector<float> scales(static_cast<size_t>(a.n), a.channel_scales[0]);
  b.channel_scales = scales.data();
  fastest()(b);
}

// The same permutation of K in both operands: a sum of integers has no order.
void both_permuted(const Args& a) {
  std::vector<int16_t> codes(static_cast<size_t>(a.rows * a.k));
  std::vector<int8_t> weights(static_cast<size_t>(a.n * a.k));
  const auto from = [&a](int64_t i) { return a.k - 1 - i; };
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t i = 0; i < a.k; ++i) codes[static_cast<size_t>(row * a.k + i)] = a.codes[row * a.codes_stride + from(i)];
  for (int64_t c = 0; c < a.n; ++c)
    for (int64_t i = 0; i < a.k; ++i) weights[static_cast<size_t>(c * a.k + i)] = a.weights[c * a.weights_stride + from(i)];
  Args b = a;
  b.codes = codes.data();
  b.codes_stride = a.k;
  b.weights = weights.data();
  b.weights_stride = a.k;
  fastest()(b);
}
// Split-K with integer partial sums, added in descending order.
void integer_slices(const Args& a) {
  std::vector<int64_t> sums(static_cast<size_t>(a.rows * a.n), 0), part;
  for (int64_t s = 3; s >= 0; --s) {
    exact_sums(a, a.k * s / 4, a.k * (s + 1) / 4, part);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
  }
  store_all(a, sums);
}
// With sB = 2^k both products below are the same number: a power of two moves through a rounding (docs/contract.md, section 2).
template <Epilogue* kEpilogue>
void where_pow2(const Args& a) {
  if (!std::all_of(a.channel_scales, a.channel_scales + a.n, num::is_pow2) || a.bias) return fastest()(a);
  by_epilogue<kEpilogue>(a);
}

}  // namespace

std::span<const Variant<linear_s8::Fn>> of_linear_s8() {
  static constexpr Variant<linear_s8::Fn> kTable[] = {
      {"premultiplied scales", Needs::kNothing, by_epilogue<premultiplied>},
      {"activation's scale first", Needs::kNothing, by_epilogue<activation_first>},
      {"bias added after a rounding", Needs::kNothing, by_epilogue<bias_added>},
      {"bias added in bf16", Needs::kNothing, by_epilogue<bias_in_bf16>},
      {"bias left out", Needs::kNothing, by_epilogue<bias_left_out>},
      {"bf16 between the scales", Needs::kNothing, by_epilogue<bf16_between>},
      {"bf16 after every step", Needs::kNothing, by_epilogue<bf16_twice>},
      {"channel scale kept in bf16", Needs::kNothing, by_epilogue<channel_scale_in_bf16>},
      {"row scale kept in bf16", Needs::kNothing, by_epilogue<row_scale_in_bf16>},
      {"channel scale one unit off", Needs::kNothing, by_epilogue<channel_scale_one_unit_off>},
      {"rounded once from binary64", Needs::kNothing, by_epilogue<rounded_once>},
      {"rounded by way of tf32", Needs::kNothing, by_epilogue<by_way_of_tf32>},
      {"sum truncated to fp32", Needs::kNothing, by_epilogue<truncated_conversion>},
      {"fast conversion beyond 2^22", Needs::kNothing, by_epilogue<fast_conversion>},
      {"sum wrapped at 32 bits", Needs::kNothing, by_epilogue<wrapped_sum>},
      {"truncated to bf16", Needs::kNothing, by_epilogue<good, truncated_bf16>},
      {"ties away from zero", Needs::kNothing, by_epilogue<good, half_away_bf16>},
      {"logits kept in bf16", Needs::kNothing, logits_in_bf16},
      {"last element left out", Needs::kNothing, without_last},
      {"K cut to whole tiles of 128", Needs::kNothing, without_tail},
      {"offset not taken off", Needs::kNothing, offset_kept},
      {"saturated pair products", Needs::kNothing, saturated_pairs},
      {"every two codes exchanged", Needs::kNothing, swapped_lanes},
      {"split-K joined in fp32", Needs::kNothing, by_slices<join_f32, 4, 0>},
      {"split-K joined in bf16", Needs::kNothing, by_slices<join_bf16, 4, 0>},
      {"scaled inside the K loop", Needs::kNothing, by_slices<join_f32, 0, 128>},
      {"accumulated in fp16", Needs::kNothing, by_slices<join_fp16, 0, 64>},
      {"dequantised, then summed in fp32", Needs::kNothing, dequantised_first},
      {"planes joined in fp32", Needs::kNothing, planes_in_fp32},
      {"the neighbour's channel scale", Needs::kNothing, neighbours_channel_scale},
      {"the first channel's scale", Needs::kNothing, one_channel_scale},
      {"the first row's scale", Needs::kNothing, first_rows_scale},
      {"the scale of the row before", Needs::kNothing, row_befores_scale},
  };
  return kTable;
}

std::span<const Variant<linear_s8::Fn>> equivalents_of_linear_s8() {
  static constexpr Variant<linear_s8::Fn> kTable[] = {
      {"K permuted in both operands", Needs::kNothing, both_permuted},
      {"split-K joined in integers", Needs::kNothing, integer_slices},
      {"premultiplied power-of-two scales", Needs::kNothing, where_pow2<premultiplied>},
      {"activation's scale first, the other a power of two", Needs::kNothing, where_pow2<activation_first>},
  };
  return kTable;
}

}  // namespace zeroulp::ops::mutants
