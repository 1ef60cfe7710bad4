#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "num/powf_sleef.h"

namespace zeroulp::model {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;
constexpr int64_t kVectorGroup = 32;

// theta^(2i/d), i < d/2.
std::vector<float> powers(double theta, int64_t head_dim) {
  const int64_t n = head_dim / 2, vectorised = n / kVectorGroup * kVectorGroup;
  const auto base = static_cast<float>(theta);
  std::vector<float> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    out[static_cast<size_t>(i)] = i < vectorised ? num::powf_sleef(base, exponent) : std::pow(base, exponent);
  }
  return out;
}

// As in transformers: a Python number divided by a tensor is the tensor's reciprocal times the number.
float llama3_frequency(float f, const RopeLlama3& r) {
  const auto factor = static_cast<float>(r.factor);
  const float wavelength = (1.0f / f) * static_cast<float>(kTwoPi);
  const auto longest = static_cast<float>(r.original_positions / r.low_freq_factor);
  const auto shortest = static_cast<float>(r.original_positions / r.high_freq_factor);
  if (wavelength > longest) return f / factor;
  if (wavelength < shortest) return f;
  const auto low = static_cast<float>(r.low_freq_factor);
  const auto width = static_cast<float>(r.high_freq_factor - r.low_freq_factor);
  const float smooth = ((1.0f / wavelength) * static_cast<float>(r.original_positions) - low) / width;
  return ((1.0f - smooth) * f) / factor + smooth * f;
}

// The pair index at which a wave makes `rotations` turns over the original context.
double correction_dim(double rotations, int64_t head_dim, double theta, double original) {
  return (static_cast<double>(head_dim) * std::log(original / (rotations * 2 * std::numbers::pi))) / (2 * std::log(theta));
}

std::vector<float> yarn_frequencies(const std::vector<float>& power, double theta, int64_t head_dim, const RopeYarn& r) {
  double low = correction_dim(r.beta_fast, head_dim, theta, r.original_positions);
  double high = correction_dim(r.beta_slow, head_dim, theta, r.original_positions);
  if (r.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  std::vector<float> out(power.size());
  for (size_t i = 0; i < power.size(); ++i) {
    const float raw = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float extrapolated_share = 1.0f - std::clamp(raw, 0.0f, 1.0f);
    const float extrapolated = 1.0f / power[i];
    const float interpolated = 1.0f / (static_cast<float>(r.factor) * power[i]);
    out[i] = interpolated * (1.0f - extrapolated_share) + extrapolated * extrapolated_share;
  }
  return out;
}

}  // namespace

double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  const auto scale = [&](double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; };
  return mscale != 0 && mscale_all_dim != 0 ? scale(mscale) / scale(mscale_all_dim) : scale(1);
}

std::vector<float> rope_frequencies(double theta, int64_t head_dim, const RopeRule& rule) {
  ZU_CHECK(head_dim > 0 && head_dim % 2 == 0 && theta > 0);
  std::vector<float> out = powers(theta, head_dim);
  if (const auto* yarn = std::get_if<RopeYarn>(&rule)) return yarn_frequencies(out, theta, head_dim, *yarn);
  for (float& f : out) {
    f = 1.0f / f;
    if (const auto* linear = std::get_if<RopeLinear>(&rule)) f = f / static_cast<float>(linear->factor);
    if (const auto* llama3 = std::get_if<RopeLlama3>(&rule)) f = llama3_frequency(f, *llama3);
  }
  return out;
}

}  // namespace zeroulp::model
