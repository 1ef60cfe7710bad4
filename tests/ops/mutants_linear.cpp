#include <algorithm>
#include <cmath>

#include "ops/mutants.h"

namespace zeroulp::ops::mutants {
namespace {

using linear_s8::Args;
using linear_s8::Output;

int64_t exact_sum(const Args& a, int64_t row, int64_t channel) {
  int64_t acc = 0;
  for (int64_t i = 0; i < a.k; ++i)
    acc += int64_t{a.codes[row * a.codes_stride + i]} * a.weights[channel * a.weights_stride + i];
  return acc;
}

// A wrong way from the exact sum to the result.
using Epilogue = float(int64_t acc, float sa, float sb, const float* bias);
using Round = uint16_t(float);
template <Epilogue* kEpilogue, Round* kRound>
void by_epilogue(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    for (int64_t c = 0; c < a.n; ++c) {
      const int64_t acc = exact_sum(a, row, c), at = row * a.y_stride + c;
      if (a.output == Output::kPartial) {
        static_cast<int64_t*>(a.y)[at] = acc;
        continue;
      }
      const float y = kEpilogue(acc, a.row_scales[row], a.channel_scales[c], a.bias ? a.bias + c : nullptr);
      if (a.output == Output::kF32)
        static_cast<float*>(a.y)[at] = y;
      else
        static_cast<uint16_t*>(a.y)[at] = kRound(y);
    }
  }
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
  return bias ? num::bf16_to_float(num::float_to_bf16(y)) + num::bf16_to_float(num::float_to_bf16(*bias)) : y;
}
float bf16_between(int64_t acc, float sa, float sb, const float* bias) {
  const float scaled = num::bf16_to_float(num::float_to_bf16(sb * num::i2f(acc)));
  return bias ? std::fma(sa, scaled, *bias) : sa * scaled;
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

// A wrong sum.
using Sum = int64_t(const Args& a, int64_t row, int64_t channel);
template <Sum* kSum>
void by_sum(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t c = 0; c < a.n; ++c) linear_s8::store(a, row, c, kSum(a, row, c));
}
int64_t sum_without_last(const Args& a, int64_t row, int64_t channel) {
  return exact_sum(a, row, channel) -
         int64_t{a.codes[row * a.codes_stride + a.k - 1]} * a.weights[channel * a.weights_stride + a.k - 1];
}
int64_t sum_of_saturated_pairs(const Args& a, int64_t row, int64_t channel) {
  if (a.width == 15) return exact_sum(a, row, channel);
  const int16_t* q = a.codes + row * a.codes_stride;
  const int8_t* w = a.weights + channel * a.weights_stride;
  // Unsigned times signed bytes with an offset of 128: a pair of products is cut to 16 bits.
  int64_t acc = 0, correction = 0;
  for (int64_t i = 0; i < a.k; i += 2) {
    int32_t pair = 0;
    for (int64_t j = i; j < std::min(i + 2, a.k); ++j) {
      pair += (q[j] + 128) * w[j];
      correction += 128 * w[j];
    }
    acc += std::clamp(pair, -32768, 32767);
  }
  return acc - correction;
}

// Planes joined in fp32 without looking at their size.
void planes_in_fp32(const Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    for (int64_t c = 0; c < a.n; ++c) {
      int64_t hi = 0, lo = 0;
      for (int64_t i = 0; i < a.k; ++i) {
        const int32_t q = a.codes[row * a.codes_stride + i], w = a.weights[c * a.weights_stride + i];
        hi += num::plane_hi(q) * w;
        lo += num::plane_lo(q) * w;
      }
      if (a.width == 8 || a.output != Output::kF32) {
        linear_s8::store(a, row, c, 128 * hi + lo);
        continue;
      }
      const float f = std::fma(128.0f, num::i2f(hi), num::i2f(lo));
      static_cast<float*>(a.y)[row * a.y_stride + c] =
          linear_s8::epilogue(f, a.row_scales[row], a.channel_scales[c], a.bias ? a.bias + c : nullptr);
    }
  }
}

void neighbours_channel_scale(const Args& a) {
  Args b = a;
  std::vector<float> scales(a.channel_scales, a.channel_scales + a.n);
  std::rotate(scales.begin(), scales.begin() + (a.n > 1), scales.end());
  b.channel_scales = scales.data();
  by_sum<exact_sum>(b);
}
void first_rows_scale(const Args& a) {
  Args b = a;
  const std::vector<float> scales(static_cast<size_t>(a.rows), a.row_scales[0]);
  b.row_scales = scales.data();
  by_sum<exact_sum>(b);
}

}  // namespace

std::span<const Variant<linear_s8::Fn>> of_linear_s8() {
  constexpr Round* kNearest = num::float_to_bf16;
  static constexpr Variant<linear_s8::Fn> kTable[] = {
      {"premultiplied scales", Needs::kNothing, by_epilogue<premultiplied, kNearest>},
      {"activation's scale first", Needs::kNothing, by_epilogue<activation_first, kNearest>},
      {"bias added after a rounding", Needs::kNothing, by_epilogue<bias_added, kNearest>},
      {"bias added in bf16", Needs::kNothing, by_epilogue<bias_in_bf16, kNearest>},
      {"bf16 between the scales", Needs::kNothing, by_epilogue<bf16_between, kNearest>},
      {"sum truncated to fp32", Needs::kNothing, by_epilogue<truncated_conversion, kNearest>},
      {"fast conversion beyond 2^22", Needs::kNothing, by_epilogue<fast_conversion, kNearest>},
      {"sum wrapped at 32 bits", Needs::kNothing, by_epilogue<wrapped_sum, kNearest>},
      {"truncated to bf16", Needs::kNothing, by_epilogue<good, truncated_bf16>},
      {"ties away from zero", Needs::kNothing, by_epilogue<good, half_away_bf16>},
      {"last element left out", Needs::kNothing, by_sum<sum_without_last>},
      {"saturated pair products", Needs::kNothing, by_sum<sum_of_saturated_pairs>},
      {"planes joined in fp32", Needs::kNothing, planes_in_fp32},
      {"the neighbour's channel scale", Needs::kNothing, neighbours_channel_scale},
      {"the first row's scale", Needs::kNothing, first_rows_scale},
  };
  return kTable;
}

}  // namespace zeroulp::ops::mutants
