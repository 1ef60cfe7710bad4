// Integer linear (docs/contract.md, section 2): int8 weights, activation codes of 8 or 15 bits, exact integer sums, one epilogue.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "num/bf16.h"
#include "num/round.h"
#include "ops/op.h"

namespace zeroulp::ops::linear_s8 {

inline constexpr int64_t kMaxK = 131072;  // plane sums stay inside int32: 131072 * 127 * 127 < 2^31

enum class Output {
  kBf16,    // bf16(epilogue)
  kF32,     // LM head: the fp32 value
  kPartial  // the exact sums, for an exchange between tensor-parallel ranks
};

struct Args {
  const int16_t* codes;  // [rows, k], row stride codes_stride; |code| <= 127 (width 8) or 16256 (width 15)
  int64_t codes_stride;
  const float* row_scales;  // sA [rows]
  int64_t rows, k;
  int width;
  const int8_t* weights;  // [n, k], row stride weights_stride; -127..127
  int64_t weights_stride, n;
  const float* channel_scales;  // sB [n]
  const float* bias;            // fp32 [n], or null
  Output output;
  void* y;  // uint16_t, float or int64_t [rows, n], row stride y_stride in elements
  int64_t y_stride;
  // scratch_bytes(rows, k) bytes at a multiple of 64, this call's own; or null: memory that the calling thread keeps and grows.
  std::byte* scratch = nullptr;
};
using Fn = void(const Args&);

// What the greediest variant needs.
int64_t scratch_bytes(int64_t rows, int64_t k);

constexpr int64_t output_bytes(Output output) { return output == Output::kBf16 ? 2 : output == Output::kF32 ? 4 : 8; }

// The same linear over output channels [first, last) alone.
inline Args channels(Args a, int64_t first, int64_t last) {
  a.weights += first * a.weights_stride;
  a.channel_scales += first;
  if (a.bias) a.bias += first;
  a.n = last - first;
  a.y = static_cast<std::byte*>(a.y) + first * output_bytes(a.output);
  return a;
}

// The same linear over rows [first, last) alone.
inline Args rows(Args a, int64_t first, int64_t last) {
  a.codes += first * a.codes_stride;
  a.row_scales += first;
  a.rows = last - first;
  a.y = static_cast<std::byte*>(a.y) + first * a.y_stride * output_bytes(a.output);
  return a;
}

// y = mul(sA, mul(sB, f)), with bias fma(sA, mul(sB, f), b); f = i2f(acc), ONE rounding whatever acc's width.
ZU_HD inline float epilogue(float f, float sa, float sb, const float* bias) {
  const float scaled = sb * f;
  return bias ? std::fma(sa, scaled, *bias) : sa * scaled;
}

ZU_HD inline uint16_t bf16_output(int64_t acc, float sa, float sb, const float* bias) { return num::float_to_bf16(epilogue(num::i2f(acc), sa, sb, bias)); }

// Writes one exact sum through the epilogue to its place; sa, sb and bias are the row's and the channel's.
ZU_HD inline void store(const Args& a, int64_t row, int64_t channel, int64_t acc, float sa, float sb, const float* bias) {
  const int64_t at = row * a.y_stride + channel;
  if (a.output == Output::kPartial) {
    static_cast<int64_t*>(a.y)[at] = acc;
    return;
  }
  const float y = epilogue(num::i2f(acc), sa, sb, bias);
  if (a.output == Output::kBf16)
    static_cast<uint16_t*>(a.y)[at] = num::float_to_bf16(y);
  else
    static_cast<float*>(a.y)[at] = num::is_nan(y) ? num::bf16_to_float(num::kBf16Nan) : y;  // a GPU's NaN has another payload
}
ZU_HD inline void store(const Args& a, int64_t row, int64_t channel, int64_t acc) {
  store(a, row, channel, acc, a.row_scales[row], a.channel_scales[channel], a.bias ? a.bias + channel : nullptr);
}

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Args, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::linear_s8
