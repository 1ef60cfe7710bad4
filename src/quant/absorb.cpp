#include "quant/absorb.h"

#include <algorithm>
#include <cmath>

#include "num/weight_scale.h"

namespace zeroulp::quant {
namespace {

using model::LinearRole;

float row_stretch(std::span<const float> row) {
  float a = 0;
  for (const float w : row) a = std::max(a, std::fabs(w));
  return a >= num::kMinWeightScale ? stretch(a) : 1.0f;
}

void stretch_row(FloatLinear& linear, int64_t i, float f) {
  for (float& w : linear.row(i)) w *= f;
  if (!linear.bias.empty()) linear.bias[static_cast<size_t>(i)] *= f;
}

void shrink_column(FloatLinear& linear, int64_t j, float f) {
  for (int64_t i = 0; i < linear.n; ++i) linear.row(i)[static_cast<size_t>(j)] /= f;
}

}  // namespace

float stretch(float a) {
  const float top = 127.0f * num::pow2(num::ceil_scale_exponent(a));
  float f = top / a;
  while (f * a > top) f = std::nextafter(f, 0.0f);
  return std::max(f, 1.0f);
}

void absorb_mantissas(FloatLayer& layer, const model::ModelConfig& c) {
  FloatLinear& up = layer[LinearRole::kUp];
  for (int64_t i = 0; i < up.n; ++i) {
    const float f = row_stretch(up.row(i));
    stretch_row(up, i, f);
    shrink_column(layer[LinearRole::kDown], i, f);
  }
  FloatLinear& v = layer[LinearRole::kV];
  const int64_t d = c.head_dim, group = c.heads / c.kv_heads;
  for (int64_t i = 0; i < v.n; ++i) {
    const float f = row_stretch(v.row(i));
    stretch_row(v, i, f);
    for (int64_t head = i / d * group; head < (i / d + 1) * group; ++head) shrink_column(layer[LinearRole::kO], head * d + i % d, f);
  }
}

}  // namespace zeroulp::quant
