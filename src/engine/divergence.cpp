#include "engine/divergence.h"

#include <cmath>

#include "engine/widest.h"
#include "num/exp.h"

namespace zeroulp::engine {
namespace {

constexpr int kLanes = 16;

struct Sums {
  double reference[kLanes] = {}, other[kLanes] = {}, difference[kLanes] = {};

  // Pairs at distance 8, 4, 2, 1; the results stand in lane 0.
  void fold() {
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) {
        reference[i] += reference[i + half];
        other[i] += other[i + half];
        difference[i] += difference[i + half];
      }
  }
};

ZU_INLINE inline float largest(const float* x, int64_t count) {
  float lane[kLanes];
  for (int j = 0; j < kLanes; ++j) lane[j] = x[0];
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  for (; i < count; ++i) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  float max = lane[0];
  for (int j = 1; j < kLanes; ++j) max = lane[j] > max ? lane[j] : max;
  return max;
}

}  // namespace

double kl_divergence(const float* reference, const float* other, int64_t count) {
  float max_r = 0, max_o = 0;
  Sums s;
  run_widest([&]() ZU_INLINE {
    max_r = largest(reference, count);
    max_o = largest(other, count);
    const float shift_r = max_r, shift_o = max_o;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      for (int j = 0; j < kLanes; ++j) {
        const float r = reference[i + j], o = other[i + j];
        const double p = static_cast<double>(num::exp_f32(r - shift_r));
        s.reference[j] += p;
        s.other[j] += static_cast<double>(num::exp_f32(o - shift_o));
        s.difference[j] += p * static_cast<double>(r - o);
      }
    for (; i < count; ++i) {
      const float r = reference[i], o = other[i];
      const double p = static_cast<double>(num::exp_f32(r - shift_r));
      s.reference[i % kLanes] += p;
      s.other[i % kLanes] += static_cast<double>(num::exp_f32(o - shift_o));
      s.difference[i % kLanes] += p * static_cast<double>(r - o);
    }
  });
  s.fold();
  return s.difference[0] / s.reference[0] - (static_cast<double>(max_r) - static_cast<double>(max_o)) -
         (std::log(s.reference[0]) - std::log(s.other[0]));
}

}  // namespace zeroulp::engine
