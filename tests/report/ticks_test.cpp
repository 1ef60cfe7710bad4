#include "report/ticks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zeroulp::report {
namespace {

std::string labels(const Axis& axis) {
  std::string out;
  for (const Tick& t : axis.ticks) out += (out.empty() ? "" : " ") + t.label;
  return out;
}

TEST(Ticks, LinearStepsAreOneTwoOrFive) {
  EXPECT_EQ(labels(linear_axis(0, 1, 5)), "0.0 0.2 0.4 0.6 0.8 1.0");
  EXPECT_EQ(labels(linear_axis(0, 128, 8)), "0 20 40 60 80 100 120 140");
  EXPECT_EQ(labels(linear_axis(-3, 7, 5)), "-4 -2 0 2 4 6 8");
  EXPECT_EQ(labels(linear_axis(0, 0.3, 3)), "0.0 0.1 0.2 0.3") << "3 * 0.1 must not be 0.30000000000000004";
  EXPECT_EQ(labels(linear_axis(0, 0.0065, 4)), "0.000 0.002 0.004 0.006 0.008");
  EXPECT_EQ(labels(linear_axis(0, 45000, 4)), "0 20k 40k 60k");
  EXPECT_EQ(labels(linear_axis(0, 2.5e9, 5)), "0 500M 1.0G 1.5G 2.0G 2.5G");
}

TEST(Ticks, LinearAxesCoverTheirDataWithAboutTheWishedNumber) {
  for (const double low : {-1e6, -3.7, 0.0, 1e-7, 12.0})
    for (const double span : {1e-5, 0.3, 1.0, 7.77, 1e9})
      for (const int target : {3, 5, 8}) {
        const Axis axis = linear_axis(low, low + span, target);
        EXPECT_LE(axis.low, low + 1e-9 * span);
        EXPECT_GE(axis.high, low + span * (1 - 1e-9));
        EXPECT_GE(axis.ticks.size(), 2u);
        EXPECT_LE(axis.ticks.size(), static_cast<size_t>(target) + 3) << low << " " << span << " " << target;
      }
}

TEST(Ticks, UnusableBoundsStillGiveAnAxis) {
  for (const auto& axis : {linear_axis(NAN, 1, 5), linear_axis(0, INFINITY, 5), linear_axis(0, 0, 5), linear_axis(7, 7, 5),
                           linear_axis(-7, -7, 5), log_axis(0, 1, 5), log_axis(HUGE_VAL, -HUGE_VAL, 5), log_axis(10, 10, 5)}) {
    EXPECT_LT(axis.low, axis.high);
    EXPECT_GE(axis.ticks.size(), 2u);
  }
}

TEST(Ticks, LogTicksArePowersOfTenOrRoundNumbersWhereThereIsRoom) {
  EXPECT_EQ(labels(log_axis(1, 1000, 6)), "1 10 100 1000");
  EXPECT_EQ(labels(log_axis(1, 1000, 9)), "1 2 5 10 20 50 100 200 500 1000");
  EXPECT_EQ(labels(log_axis(0.02, 30000, 8)), "0.1 1 10 100 1000 10k");
  EXPECT_EQ(labels(log_axis(1e-9, 1, 3)), "10\u207b\u2079 10\u207b\u2076 10\u207b\u00b3 10\u2070");
  EXPECT_EQ(labels(log_axis(3e-7, 8e-7, 5)), "2\u00b710\u207b\u2077 5\u00b710\u207b\u2077 10\u207b\u2076");
}

TEST(Ticks, LogAxesHugTheirData) {
  for (const double low : {1e-12, 0.003, 0.7, 1.0, 99.0, 3e8})
    for (const double factor : {1.0, 1.5, 30.0, 1e7})
      for (const int target : {3, 5, 8}) {
        const Axis axis = log_axis(low, low * factor, target);
        EXPECT_LE(axis.low, low);
        EXPECT_GT(axis.low, low / 6);
        EXPECT_GE(axis.high, low * factor);
        EXPECT_LT(axis.high, low * factor * 6);
        EXPECT_GE(axis.ticks.size(), 1u);
        EXPECT_LE(axis.ticks.size(), static_cast<size_t>(target) + 2);
      }
}

TEST(Ticks, PositionsRunFromZeroToOne) {
  const Axis linear = linear_axis(0, 10, 5), log = log_axis(1, 100, 5);
  EXPECT_DOUBLE_EQ(linear.position(0), 0);
  EXPECT_DOUBLE_EQ(linear.position(5), 0.5);
  EXPECT_DOUBLE_EQ(log.position(1), 0);
  EXPECT_DOUBLE_EQ(log.position(10), 0.5);
  EXPECT_LT(log.position(0), 0);
}

}  // namespace
}  // namespace zeroulp::report
