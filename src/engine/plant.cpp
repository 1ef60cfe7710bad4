#include "engine/plant.h"

#include <algorithm>
#include <vector>

#include "ops/linear_s8/reference.h"

namespace zeroulp::engine {

std::optional<Plant> plant_from_name(std::string_view name) {
  const auto it = std::find(std::begin(kPlantNames), std::end(kPlantNames), name);
  if (it == std::end(kPlantNames)) return std::nullopt;
  return static_cast<Plant>(it - std::begin(kPlantNames));
}

namespace planted {
namespace {

namespace linear_s8 = ops::linear_s8;

float through_bf16(float x) { return num::bf16_to_float(num::float_to_bf16(x)); }

std::vector<int64_t> exact_sums(linear_s8::Args args) {
  std::vector<int64_t> sums(static_cast<size_t>(args.rows * args.n));
  args.output = linear_s8::Output::kPartial;
  args.y = sums.data();
  args.y_stride = args.n;
  linear_s8::reference(args);
  return sums;
}

void put(const linear_s8::Args& a, int64_t row, int64_t channel, float value) {
  const int64_t at = row * a.y_stride + channel;
  if (a.output == linear_s8::Output::kBf16)
    static_cast<uint16_t*>(a.y)[at] = num::float_to_bf16(value);
  else
    static_cast<float*>(a.y)[at] = value;
}

}  // namespace

void linear_bf16_intermediates(const linear_s8::Args& a) {
  if (a.output == linear_s8::Output::kPartial) return linear_s8::reference(a);
  const std::vector<int64_t> sums = exact_sums(a);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t channel = 0; channel < a.n; ++channel) {
      const float f = through_bf16(num::i2f(sums[static_cast<size_t>(row * a.n + channel)]));
      put(a, row, channel, linear_s8::epilogue(f, a.row_scales[row], a.channel_scales[channel], a.bias ? a.bias + channel : nullptr));
    }
}

void linear_bf16_logits(const linear_s8::Args& a) {
  const std::vector<int64_t> sums = exact_sums(a);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t channel = 0; channel < a.n; ++channel) {
      const float f = num::i2f(sums[static_cast<size_t>(row * a.n + channel)]);
      put(a, row, channel, through_bf16(linear_s8::epilogue(f, a.row_scales[row], a.channel_scales[channel], a.bias ? a.bias + channel : nullptr)));
    }
}

void linear_bf16_partials(const linear_s8::Args& a, int parts) {
  std::vector<float> total(static_cast<size_t>(a.rows * a.n), 0.0f);
  for (int part = 0; part < parts; ++part) {
    const int64_t begin = a.k * part / parts, end = a.k * (part + 1) / parts;
    linear_s8::Args slice = a;
    slice.codes += begin;
    slice.weights += begin;
    slice.k = end - begin;
    const std::vector<int64_t> sums = exact_sums(slice);
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / a.n, channel = static_cast<int64_t>(i) % a.n;
      total[i] += through_bf16(linear_s8::epilogue(num::i2f(sums[i]), a.row_scales[row], a.channel_scales[channel], nullptr));
    }
  }
  for (size_t i = 0; i < total.size(); ++i) put(a, static_cast<int64_t>(i) / a.n, static_cast<int64_t>(i) % a.n, total[i]);
}

void rmsnorm_bf16_factor(const ops::rmsnorm::Args& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const uint16_t* x = a.x + row * a.x_stride;
    int e_max = 1;
    for (int64_t i = 0; i < a.d; ++i) e_max = std::max(e_max, ops::rmsnorm::exponent_of(x[i]));
    int64_t sum = 0;
    for (int64_t i = 0; i < a.d; ++i) sum += ops::rmsnorm::square_term(x[i], e_max);
    const float r = through_bf16(ops::rmsnorm::reciprocal_rms(sum, e_max, a.d, a.eps));
    for (int64_t i = 0; i < a.d; ++i) a.y[row * a.y_stride + i] = ops::rmsnorm::scaled(x[i], r, a.weight[i]);
  }
}

void round_sums_to_bf16(std::span<int64_t> sums) {
  for (int64_t& s : sums) s = static_cast<int64_t>(through_bf16(num::i2f(s)));
}

void round_values(std::byte* block, const ops::kv_cache::Layout& layout) {
  const ops::kv_cache::View<std::byte> view(block, layout);
  for (int64_t i = 0; i < layout.d * ops::kv_cache::kBlock; ++i) view.values[i] = static_cast<int8_t>(view.values[i] & ~1);
}

}  // namespace planted
}  // namespace zeroulp::engine
