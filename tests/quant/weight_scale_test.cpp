#include "num/weight_scale.h"

#include <gtest/gtest.h>

#include <vector>

#include "num/philox.h"

namespace zeroulp::num {
namespace {

using Wide = long double;

// Directly from the definitions, by trying every exponent.
int brute_ceil(float a) {
  int e = -60;
  while (static_cast<Wide>(a) > 127.0L * std::ldexp(1.0L, e)) ++e;
  return e;
}
int brute_nearest(float a) {
  int best = 0;
  Wide least = 1e30L;
  const Wide wanted = std::log2(static_cast<Wide>(a) / 127.0L);
  for (int e = -60; e <= 30; ++e)
    if (const Wide d = std::fabs(wanted - e); d < least) least = d, best = e;
  return best;
}
Wide brute_error(const std::vector<float>& row, Wide scale) {
  Wide sum = 0;
  for (const float w : row) {
    const Wide q = std::clamp(std::nearbyint(w / scale), -127.0L, 127.0L);
    sum += (q * scale - w) * (q * scale - w);
  }
  return sum;
}

std::vector<float> random_row(uint64_t seed, size_t n, int exponent) {
  PhiloxStream random(seed);
  std::vector<float> row(n);
  for (float& w : row) {
    const float u = random.symmetric();
    w = u * u * u * pow2(exponent);
  }
  return row;
}

float amax(const std::vector<float>& row) {
  float a = 0;
  for (const float w : row) a = std::max(a, std::fabs(w));
  return a;
}

TEST(WeightScale, ExponentsEqualBruteForceOverEveryFractionNearTheThresholds) {
  for (int exponent : {-30, -7, 0, 5}) {
    for (uint32_t fraction = 0; fraction < (1u << 23); fraction += (fraction % 0x1000 < 0xFF0) ? 97 : 1) {
      const float a = float_of((static_cast<uint32_t>(exponent + 127) << 23) | fraction);
      ASSERT_EQ(ceil_scale_exponent(a), brute_ceil(a)) << a;
    }
    for (uint32_t fraction = 0; fraction < (1u << 23); fraction += 4099) {
      const float a = float_of((static_cast<uint32_t>(exponent + 127) << 23) | fraction);
      ASSERT_EQ(nearest_scale_exponent(a), brute_nearest(a)) << a;
    }
  }
  // The bits on either side of both thresholds.
  for (const float a : {127.0f, std::nextafter(127.0f, 200.0f), std::nextafter(127.0f, 0.0f)})
    EXPECT_EQ(ceil_scale_exponent(a), brute_ceil(a));
  const float half_way = static_cast<float>(127.0L * std::sqrt(2.0L));
  for (const float a : {half_way, std::nextafter(half_way, 300.0f), std::nextafter(half_way, 0.0f)})
    EXPECT_EQ(nearest_scale_exponent(a), brute_nearest(a));
}

TEST(WeightScale, FreeIsOneDivisionAndUsesAllCodes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto row = random_row(seed, 64, static_cast<int>(seed % 9) - 6);
    const float a = amax(row);
    const auto scale = weight_scale(row, ScaleRule::kFree);
    ASSERT_TRUE(scale);
    EXPECT_EQ(bits_of(*scale), bits_of(a / 127.0f));
    EXPECT_EQ(std::abs(weight_code(a, *scale)), 127);
  }
}

TEST(WeightScale, CeilNeverClipsAndHalfOfItWould) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto row = random_row(seed, 64, static_cast<int>(seed % 9) - 6);
    const float scale = *weight_scale(row, ScaleRule::kCeil);
    EXPECT_TRUE(is_pow2(scale));
    for (const float w : row) EXPECT_LE(std::fabs(w / scale), 127.0f);
    EXPECT_GT(amax(row) / (scale / 2), 127.0f);
  }
}

TEST(WeightScale, LsqIsLeastAmongItsCandidates) {
  int below_ceil = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto row = random_row(seed, 96, static_cast<int>(seed % 9) - 6);
    const float scale = *weight_scale(row, ScaleRule::kLsq), top = pow2(ceil_scale_exponent(amax(row)));
    const Wide error = brute_error(row, scale);
    for (const float other : {top, top / 2, top / 4}) EXPECT_LE(error, brute_error(row, other) * (1 + 1e-12L));
    below_ceil += scale < top;
  }
  EXPECT_GT(below_ceil, 0) << "the rule must differ from ceil somewhere";
}

TEST(WeightScale, NearestClipsSomewhere) {
  int clipped = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    auto row = random_row(seed, 64, 0);
    for (float& w : row) w *= 1.0f + static_cast<float>(seed) / 200;
    clipped += amax(row) / *weight_scale(row, ScaleRule::kNearest) > 127.5f;
  }
  EXPECT_GT(clipped, 50);
}

TEST(WeightScale, ZeroRowsAndRangeEnds) {
  const std::vector<float> zeros(8, -0.0f);
  for (const ScaleRule rule : {ScaleRule::kFree, ScaleRule::kCeil, ScaleRule::kLsq, ScaleRule::kNearest})
    EXPECT_EQ(weight_scale(zeros, rule), std::optional(1.0f));
  EXPECT_EQ(weight_code(-0.0f, 1.0f), 0);
  const float least = 127.0f * pow2(-40), most = 127.0f * pow2(8);
  EXPECT_EQ(weight_scale(std::vector{least}, ScaleRule::kCeil), std::optional(pow2(-40)));
  EXPECT_FALSE(weight_scale(std::vector{least / 2}, ScaleRule::kCeil));
  EXPECT_FALSE(weight_scale(std::vector{std::nextafter(least, 0.0f)}, ScaleRule::kFree));
  EXPECT_EQ(weight_scale(std::vector{most}, ScaleRule::kCeil), std::optional(pow2(8)));
  EXPECT_FALSE(weight_scale(std::vector{std::nextafter(most, 1e9f)}, ScaleRule::kCeil));
  EXPECT_FALSE(weight_scale(std::vector{1e-30f}, ScaleRule::kFree)) << "a subnormal scale must not be divided by";
}

TEST(WeightScale, CodesAreNearestEvenAndSaturate) {
  EXPECT_EQ(weight_code(0.5f, 1.0f), 0);
  EXPECT_EQ(weight_code(1.5f, 1.0f), 2);
  EXPECT_EQ(weight_code(-2.5f, 1.0f), -2);
  EXPECT_EQ(weight_code(1000.0f, 1.0f), 127);
  EXPECT_EQ(weight_code(-1000.0f, 1.0f), -127) << "-128 must never appear";
}

}  // namespace
}  // namespace zeroulp::num
