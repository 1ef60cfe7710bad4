#include "num/exp2.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zeroulp::num {
namespace {

TEST(Exp2, DegreeThreeStaysWithinItsStatedErrorAndNeverExceedsOne) {
  double worst = 0;
  for (uint32_t b = 0x80000001u; b <= bits_of(-126.0f); b += 977) {
    const float d = float_of(b), t = exp2_3(d);
    ASSERT_LE(t, 1.0f) << d;
    ASSERT_GT(t, 0.0f) << d;
    worst = std::max(worst, std::fabs(t / std::exp2(static_cast<double>(d)) - 1));
  }
  EXPECT_LT(worst, 1.02e-4);
  EXPECT_GT(worst, 0.9e-4) << "the bound is meant to be tight";
  EXPECT_EQ(exp2_3(-200.0f), exp2_3(-126.0f));
  EXPECT_EQ(exp2_3(-INFINITY), exp2_3(-126.0f));
}

TEST(Exp2, DegreeFiveStaysWithinItsStatedError) {
  double worst = 0;
  for (int i = -126 * 4096; i <= 126 * 4096; ++i) {
    const float d = static_cast<float>(i) / 4096.0f;
    worst = std::max(worst, std::fabs(exp2_5(d) / std::exp2(static_cast<double>(d)) - 1));
  }
  EXPECT_LT(worst, 2.5e-7) << "fit error 9.2e-8 and the roundings of the Horner steps";
  EXPECT_EQ(exp2_5(0.0f), 1.0f);
  EXPECT_EQ(exp2_5(-500.0f), exp2_5(-126.0f));
  EXPECT_EQ(exp2_5(500.0f), exp2_5(126.0f));
}

TEST(Exp2, SplitTakesTiesToEven) {
  EXPECT_EQ(split_nearest(0.5f).whole, 0.0f);
  EXPECT_EQ(split_nearest(1.5f).whole, 2.0f);
  EXPECT_EQ(split_nearest(-2.5f).whole, -2.0f);
  EXPECT_EQ(split_nearest(-2.5f).rest, -0.5f);
}

}  // namespace
}  // namespace zeroulp::num
