#include "ops/peers/peers.h"

#include <cmath>
#include <vector>

#include "base/check.h"
#include "num/fp16.h"
#include "ops/op.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zeroulp::ops::peers {
namespace {

using linear_s8::Args;
using num::bf16_to_float;
using num::float_to_bf16;

float in_bf16(float x) { return bf16_to_float(float_to_bf16(x)); }
float in_fp16(float x) { return num::fp16_to_float(num::float_to_fp16(x)); }

// What one output is computed from.
struct Element {
  const int16_t* codes;
  const int8_t* weights;
  int64_t k;
  int64_t sum;  // exact
  float sa, sb;
  const float* bias;  // null, or one bf16 value
};

int64_t sum_of(const Element& e, int64_t begin, int64_t end) {
  int64_t sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += int32_t{e.codes[i]} * e.weights[i];
  return sum;
}

// Each gives the fp32 value that the output is rounded from; those that add the bias after a rounding to bf16 say so.
float vllm_cutlass(const Element& e) {
  const float scaled = e.sb * num::i2f(e.sum);
  return e.bias != nullptr ? std::fma(e.sa, scaled, *e.bias) : e.sa * scaled;
}
float biased_in_bf16(const Element& e, float value) { return e.bias != nullptr ? in_bf16(value) + *e.bias : value; }
float vllm_triton(const Element& e) { return biased_in_bf16(e, e.sb * (e.sa * num::i2f(e.sum))); }
float sglang_premultiplied(const Element& e) {
  const float scaled = num::i2f(e.sum) * (e.sb * e.sa);
  return e.bias != nullptr ? scaled + *e.bias : scaled;
}
float sglang_block(const Element& e) {
  constexpr int64_t kBlock = 128;
  float sum = 0;
  for (int64_t at = 0; at < e.k; at += kBlock) sum = std::fma(num::i2f(sum_of(e, at, std::min(at + kBlock, e.k))) * e.sa, e.sb, sum);
  return biased_in_bf16(e, sum);
}
float torchao(const Element& e) {
  const float scaled = in_bf16(num::i2f(e.sum) * e.sa) * e.sb;
  return e.bias != nullptr ? scaled + *e.bias : scaled;
}
float dequantise_first(const Element& e) {
  float sum = 0;
  for (int64_t i = 0; i < e.k; ++i) sum = std::fma(num::i2f(int32_t{e.codes[i]}) * e.sa, num::i2f(int32_t{e.weights[i]}) * e.sb, sum);
  return biased_in_bf16(e, sum);
}
float llama_q80(const Element& e) {
  constexpr int64_t kBlock = 32;
  const float scale = in_fp16(e.sb) * in_fp16(e.sa);
  float sum = 0;
  for (int64_t at = 0; at < e.k; at += kBlock) sum = std::fma(num::i2f(sum_of(e, at, std::min(at + kBlock, e.k))), scale, sum);
  return e.bias != nullptr ? sum + *e.bias : sum;
}

#if defined(__x86_64__)
// Eight channels of weights [k][8] and up to four rows at a time; each output is its own sum from the first product to the last, as above.
template <int kRows>
ZU_TARGET_AVX2 void dequantised_sums(const float* x, const float* weights, int64_t k, float* to) {
  __m256 sums[kRows];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t i = 0; i < k; ++i) {
    const __m256 w = _mm256_loadu_ps(weights + 8 * i);
    for (int r = 0; r < kRows; ++r) sums[r] = _mm256_fmadd_ps(_mm256_broadcast_ss(x + r * k + i), w, sums[r]);
  }
  for (int r = 0; r < kRows; ++r) _mm256_storeu_ps(to + 8 * r, sums[r]);
}
#endif

// dequantise_first of all outputs of a linear: [rows, n] before rounding. A thousand million of its products are a minute's work one by one.
bool all_dequantised(const Args& a, std::vector<float>& values) {
#if defined(__x86_64__)
  if (!cpu_features().avx2) return false;
  const auto k = static_cast<size_t>(a.k);
  thread_local std::vector<float> x, w;
  x.resize(static_cast<size_t>(a.rows) * k);
  w.assign(8 * k, 0.0f);
  values.resize(static_cast<size_t>(a.rows * a.n));
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t i = 0; i < a.k; ++i) x[static_cast<size_t>(row * a.k + i)] = num::i2f(int32_t{a.codes[row * a.codes_stride + i]}) * a.row_scales[row];
  for (int64_t first = 0; first < a.n; first += 8) {
    const int64_t channels = std::min<int64_t>(8, a.n - first);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < a.k; ++i) w[static_cast<size_t>(8 * i + c)] = num::i2f(int32_t{a.weights[(first + c) * a.weights_stride + i]}) * a.channel_scales[first + c];
    for (int64_t row = 0; row < a.rows;) {
      float sums[4 * 8];
      const int64_t rows = a.rows - row >= 4 ? 4 : 1;
      (rows == 4 ? dequantised_sums<4> : dequantised_sums<1>)(x.data() + row * a.k, w.data(), a.k, sums);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < channels; ++c) values[static_cast<size_t>((row + r) * a.n + first + c)] = sums[8 * r + c];
      row += rows;
    }
  }
  return true;
#else
  return static_cast<void>(a), static_cast<void>(values), false;
#endif
}

// Exact sums by the fastest kernel; those that add in blocks take their own.
template <float (*kValue)(const Element&), bool kNeedsSum>
void run_linear(const Args& a) {
  if (a.width != 8 || a.output == linear_s8::Output::kPartial) {
    static const Variant<linear_s8::Fn> fastest = *select<linear_s8::Fn>("linear_s8", linear_s8::variants(), "", cpu_features());
    return fastest.run(a);
  }
  thread_local std::vector<int64_t> sums;
  if (kNeedsSum) {
    sums.resize(static_cast<size_t>(a.rows * a.n));
    Args exact = a;
    exact.output = linear_s8::Output::kPartial;
    exact.y = sums.data();
    exact.y_stride = a.n;
    run_linear<kValue, kNeedsSum>(exact);
  }
  thread_local std::vector<float> dequantised;
  const bool at_once = kValue == dequantise_first && all_dequantised(a, dequantised);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t c = 0; c < a.n; ++c) {
      const float bias = a.bias != nullptr ? in_bf16(a.bias[c]) : 0;
      const Element e{a.codes + row * a.codes_stride, a.weights + c * a.weights_stride, a.k, kNeedsSum ? sums[static_cast<size_t>(row * a.n + c)] : 0, a.row_scales[row],
                      a.channel_scales[c], a.bias != nullptr ? &bias : nullptr};
      const float value = at_once ? biased_in_bf16(e, dequantised[static_cast<size_t>(row * a.n + c)]) : kValue(e);
      const int64_t at = row * a.y_stride + c;
      if (a.output == linear_s8::Output::kBf16)
        static_cast<uint16_t*>(a.y)[at] = float_to_bf16(value);
      else
        static_cast<float*>(a.y)[at] = value;
    }
}

int32_t half_away(float x) {
  auto q = static_cast<int32_t>(x);
  const float rest = x - static_cast<float>(q);
  if (rest >= 0.5f) ++q;
  if (rest <= -0.5f) --q;
  return q;
}
int32_t saturated(int32_t q) { return std::min(std::max(q, -128), 127); }


// Inf and NaN end as they do with the contract: a fault, of which the peers know nothing.
template <class Codes>
void each_row(const quant_rows::Args& a, const Codes& codes) {
  if (a.width != 8) {
    static const Variant<quant_rows::Fn> fastest = *select<quant_rows::Fn>("quant_rows", quant_rows::variants(), "", cpu_features());
    return fastest.run(a);
  }
  for (int64_t row = 0; row < a.rows; ++row) {
    const uint16_t* x = a.x + row * a.x_stride;
    int16_t* q = a.codes + row * a.codes_stride;
    const uint16_t top = a.absmax != nullptr ? a.absmax[row] : quant_rows::row_absmax(x, a.k);
    if (quant_rows::classify(top, a.range) == quant_rows::RowKind::kFault) {
      quant_rows::begin_row(a, row, top);
      std::fill(q, q + a.k, int16_t{0});
      continue;
    }
    a.scales[row] = codes(bf16_to_float(top), x, q);
  }
}

void vllm_dynamic(const quant_rows::Args& a) {
  each_row(a, [&](float top, const uint16_t* x, int16_t* q) {
    const float multiplier = top == 0 ? 0.0f : 127.0f / top;
    for (int64_t i = 0; i < a.k; ++i) q[i] = static_cast<int16_t>(saturated(num::rne(bf16_to_float(x[i]) * multiplier)));
    return top / 127.0f;
  });
}
void vllm_static(const quant_rows::Args& a) {
  each_row(a, [&](float top, const uint16_t* x, int16_t* q) {
    const float scale = top == 0 ? 1.0f : top / 127.0f;
    for (int64_t i = 0; i < a.k; ++i) q[i] = static_cast<int16_t>(saturated(num::rne(bf16_to_float(x[i]) / scale)));
    return scale;
  });
}
// Triton's `/` on fp32 is div.full.f32, a product with an approximate reciprocal. With a correctly rounded one instead all scales of the vectors come out,
// and all codes but one of 4,096, or, of rows chosen to lie at ties, two (per token) and seven (per group).
float triton_quotient(float a, float b) { return a * (1.0f / b); }

void sglang_token(const quant_rows::Args& a) {
  each_row(a, [&](float top, const uint16_t* x, int16_t* q) {
    top = std::max(top, 1e-10f);
    for (int64_t i = 0; i < a.k; ++i) q[i] = static_cast<int8_t>(half_away(bf16_to_float(x[i]) * triton_quotient(127.0f, top)));
    return triton_quotient(top, 127.0f);
  });
}
void sglang_group(const quant_rows::Args& a) {
  each_row(a, [&](float top, const uint16_t* x, int16_t* q) {
    const float scale = triton_quotient(std::max(top, 1e-10f), 127.0f);
    for (int64_t i = 0; i < a.k; ++i) q[i] = static_cast<int16_t>(saturated(static_cast<int32_t>(triton_quotient(bf16_to_float(x[i]), scale))));
    return scale;
  });
}
void llama_q80_rows(const quant_rows::Args& a) {
  each_row(a, [&](float top, const uint16_t* x, int16_t* q) {
    const float d = top / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
    for (int64_t i = 0; i < a.k; ++i) q[i] = static_cast<int16_t>(half_away(bf16_to_float(x[i]) * inverse));
    return d;
  });
}

}  // namespace

linear_s8::Fn* linear_of(Linear which) {
  switch (which) {
    case Linear::kVllmCutlass: return run_linear<vllm_cutlass, true>;
    case Linear::kVllmTriton: return run_linear<vllm_triton, true>;
    case Linear::kSglangPremultiplied: return run_linear<sglang_premultiplied, true>;
    case Linear::kSglangBlock: return run_linear<sglang_block, false>;
    case Linear::kTorchao: return run_linear<torchao, true>;
    case Linear::kDequantiseFirst: return run_linear<dequantise_first, false>;
    case Linear::kLlamaQ80: return run_linear<llama_q80, false>;
  }
  ZU_CHECK(false);
}

quant_rows::Fn* quantiser_of(Quantiser which) {
  switch (which) {
    case Quantiser::kVllm: return vllm_dynamic;
    case Quantiser::kVllmStatic: return vllm_static;
    case Quantiser::kSglangToken: return sglang_token;
    case Quantiser::kSglangGroup: return sglang_group;
    case Quantiser::kLlamaQ80: return llama_q80_rows;
  }
  ZU_CHECK(false);
}

}  // namespace zeroulp::ops::peers
