#include <gtest/gtest.h>

#include <cmath>

#include "num/bf16.h"
#include "num/fp16.h"
#include "num/round.h"

namespace zeroulp::num {
namespace {

TEST(Bf16, EveryPatternSurvivesTheRoundTripExceptThatNansBecomeOne) {
  for (uint32_t b = 0; b < 65536; ++b) {
    const auto bits = static_cast<uint16_t>(b);
    const float f = bf16_to_float(bits);
    EXPECT_EQ(float_to_bf16(f), std::isnan(f) ? kBf16Nan : bits);
  }
}

// The nearest of the two neighbours by exact arithmetic in double; both neighbours and the value are exact there.
TEST(Bf16, RoundingPicksTheNearestAndTheEvenOneOfATie) {
  for (uint32_t high = 0; high < 0x7F7F; ++high) {
    const double below = bf16_to_float(static_cast<uint16_t>(high)), above = bf16_to_float(static_cast<uint16_t>(high + 1));
    for (uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu, 0x1234u, 0xA5A5u}) {
      const float x = float_of((high << 16) | low);
      const double down = x - below, up = above - x;
      const uint32_t want = down < up ? high : up < down ? high + 1 : high + (high & 1);
      ASSERT_EQ(float_to_bf16(x), want) << std::hex << bits_of(x);
      ASSERT_EQ(float_to_bf16(-x), want | 0x8000u);
    }
  }
}

TEST(Fp16, EveryPatternEqualsItsDefinition) {
  for (uint32_t b = 0; b < 65536; ++b) {
    const int sign = b >> 15 ? -1 : 1, e = static_cast<int>((b >> 10) & 31), m = static_cast<int>(b & 1023);
    const float f = fp16_to_float(static_cast<uint16_t>(b));
    if (e == 31) {
      EXPECT_TRUE(m ? std::isnan(f) : f == sign * INFINITY);
    } else {
      EXPECT_EQ(f, static_cast<float>(sign * std::ldexp(e ? 1024 + m : m, (e ? e : 1) - 25)));
      EXPECT_EQ(std::signbit(f), sign < 0);
    }
  }
}

TEST(Round, PlanesRebuildEvery15BitCodeAndStayInTheirRanges) {
  for (int32_t q = -16256; q <= 16256; ++q) {
    const int32_t hi = plane_hi(q), lo = plane_lo(q);
    ASSERT_EQ(128 * hi + lo, q);
    ASSERT_TRUE(hi >= -127 && hi <= 127 && lo >= -64 && lo <= 63) << q;
  }
}

TEST(Round, LdexpRoundsOnceIntoTheSubnormalRange) {
  EXPECT_EQ(ldexp_rn(3.0f, -150), float_of(2)) << "1.5 units: a tie, to even";
  EXPECT_EQ(ldexp_rn(0x1.000002p0f, -126 - 23), float_of(1));
  EXPECT_EQ(ldexp_rn(0x1.800002p0f, -149), float_of(2)) << "just above the tie of 1.5 units";
  EXPECT_EQ(ldexp_rn(1.0f, 200), INFINITY);
  EXPECT_EQ(ldexp_rn(1.0f, -300), 0.0f);
}

TEST(Round, IntegersConvertWithOneRounding) {
  // 2^40 + 2^16 is exactly between two floats; one more unit must round up although its double-rounded neighbour would not.
  EXPECT_EQ(i2f((int64_t{1} << 40) + (1 << 16)), 0x1p40f);
  EXPECT_EQ(i2f((int64_t{1} << 40) + (1 << 16) + 1), 0x1.000002p40f);
  EXPECT_EQ(i2f(int32_t{(1 << 24) + 1}), 16777216.0f);
  EXPECT_EQ(i2f(int32_t{(1 << 24) + 3}), 16777220.0f);
}

}  // namespace
}  // namespace zeroulp::num
