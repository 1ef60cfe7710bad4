#include "num/exp.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zeroulp::num {
namespace {

// Every float of the range whose last eight bits are zero or all ones; the error is measured against binary64.
TEST(Exp, IsWithinOneUlp) {
  double worst = 0;
  for (uint32_t top = 0; top < (1u << 24); ++top) {
    for (const uint32_t low : {0u, 255u}) {
      const float x = float_of(top << 8 | low);
      if (!(x >= -87.0f && x <= 88.7f) || !is_finite(x)) continue;
      const double exact = std::exp(static_cast<double>(x));
      const float result = exp_f32(x);
      const double ulp = std::nextafter(result, INFINITY) - static_cast<double>(result);
      worst = std::max(worst, std::abs(result - exact) / ulp);
    }
  }
  EXPECT_LE(worst, 1.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Exp, EndsOfTheRange) {
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-1000.0f), exp_f32(-87.3f));
  EXPECT_TRUE(is_finite(exp_f32(1000.0f)));
  EXPECT_GT(exp_f32(-INFINITY), 0.0f);
}

}  // namespace
}  // namespace zeroulp::num
