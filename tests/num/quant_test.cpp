#include "num/quant.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zeroulp::num {
namespace {

// One binade of largest magnitudes a, with every smaller bf16 magnitude x in nine binades: representative by scale invariance.
template <class Visit>
void over_one_binade(Visit visit) {
  for (uint16_t a = 0x3F80; a < 0x4000; ++a)
    for (uint16_t x = 0x3800; x <= a; ++x) visit(bf16_to_float(a), bf16_to_float(x));
}

// Multiples of 1/64 up to 2^14, of 1/2 up to 2^19, and larger numbers: every kind of tie.
TEST(Round, RneIsTheLibrarysNearestEven) {
  for (int32_t i = -(1 << 20); i <= (1 << 20); ++i)
    for (const float scale : {0x1p-6f, 0.5f, 1.0f, 511.0f}) {
      const float x = static_cast<float>(i) * scale;
      ASSERT_EQ(rne(x), static_cast<int32_t>(std::nearbyint(x))) << x;
      ASSERT_EQ(rne64(x), static_cast<int64_t>(std::nearbyint(x))) << x;
    }
  EXPECT_EQ(rne(0.5f), 0);
  EXPECT_EQ(rne(1.5f), 2);
  EXPECT_EQ(rne(-2.5f), -2);
  EXPECT_EQ(rne(2147483520.0f), 2147483520);
  EXPECT_EQ(rne64(0x1.fffffep40f), int64_t{0x1fffffe} << 16);
}

TEST(Quantiser, NoCodeExceedsTheTopInAWholeBinade) {
  for (int width : {8, 15}) {
    const auto top = static_cast<int32_t>(quant_top(width));
    over_one_binade([&](float a, float x) {
      const float m = quant_multiplier(a, width);
      ASSERT_LE(quant_code(x, m), top) << a << ' ' << x;
      ASSERT_EQ(quant_code(-x, m), -quant_code(x, m));
      if (x == a) {
        ASSERT_EQ(quant_code(x, m), top);
      }
    });
  }
}

// The directed vectors: other spellings of "divide by the scale" are not this rule. The counts are those of the contract.
TEST(Quantiser, OtherSpellingsDifferOnTheStatedCounts) {
  for (int width : {8, 15}) {
    int divide = 0, reciprocal = 0;
    over_one_binade([&](float a, float x) {
      const float s = quant_scale(a, width);
      const int32_t q = quant_code(x, quant_multiplier(a, width));
      divide += rne(x / s) != q;
      reciprocal += rne(x * (1.0f / s)) != q;
    });
    EXPECT_GT(divide, 0);
    EXPECT_GT(reciprocal, 0);
    RecordProperty(width == 8 ? "divide8" : "divide15", divide);
    RecordProperty(width == 8 ? "reciprocal8" : "reciprocal15", reciprocal);
  }
}

TEST(Quantiser, PowerOfTwoExponentIsTheLeastThatHolds) {
  for (uint32_t b = 0x0080; b < 0x7F80; ++b) {
    const int e = pow2_scale_exponent(static_cast<uint16_t>(b));
    const double a = bf16_to_float(static_cast<uint16_t>(b));
    ASSERT_LE(a, std::ldexp(127.0, e));
    ASSERT_GT(a, std::ldexp(127.0, e - 1));
    ASSERT_LE(a, std::ldexp(quant_top(15), pow2_scale_exponent(static_cast<uint16_t>(b), 15)));
    ASSERT_GT(a, std::ldexp(quant_top(15), pow2_scale_exponent(static_cast<uint16_t>(b), 15) - 1));
  }
}

}  // namespace
}  // namespace zeroulp::num
