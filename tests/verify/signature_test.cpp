// Features of made differences, and the classes that they are taken for.
#include "verify/signature.h"

#include <gtest/gtest.h>

#include "num/bf16.h"
#include "num/philox.h"

namespace zeroulp::verify {
namespace {

int at(const Features& f, Feature feature) { return f[static_cast<size_t>(feature)]; }

// Rows of a linear's size with values of order one.
struct Rows {
  static constexpr int64_t kRows = 40, kWidth = 96;
  std::vector<float> exact;
  std::vector<uint16_t> expected;
  Rows() {
    num::PhiloxStream random(17);
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      exact.push_back(random.symmetric() * 3);
      expected.push_back(num::float_to_bf16(exact.back()));
    }
  }
  Features with(const std::vector<uint16_t>& got) const { return features_of({"", Element::kBf16, kRows, kWidth, expected.data(), got.data()}); }
};

TEST(Signature, NothingDiffersHasNoFeaturesAndNoClass) {
  const Rows rows;
  for (const int8_t f : rows.with(rows.expected)) EXPECT_EQ(f, -1);
  EXPECT_EQ(likely_fault("", rows.with(rows.expected)).fault_class, FaultClass::kNone);
}

TEST(Signature, TruncationIsOneUnitTowardsZeroInHalfOfTheElements) {
  const Rows rows;
  std::vector<uint16_t> got;
  for (const float v : rows.exact) got.push_back(static_cast<uint16_t>(num::bits_of(v) >> 16));
  const Features f = rows.with(got);
  EXPECT_EQ(at(f, Feature::kLargest), 0);
  EXPECT_EQ(at(f, Feature::kOnes), 0);
  EXPECT_EQ(at(f, Feature::kAway), 0);
  EXPECT_EQ(at(f, Feature::kElements), 5);
  EXPECT_EQ(likely_fault("", f).fault_class, FaultClass::kFinalRounding);
}

TEST(Signature, AWrongRowScaleIsAMultipleByRow) {
  const Rows rows;
  std::vector<uint16_t> got = rows.expected;
  for (int64_t row = 0; row < Rows::kRows; row += 2)
    for (int64_t i = 0; i < Rows::kWidth; ++i) {
      uint16_t& v = got[static_cast<size_t>(row * Rows::kWidth + i)];
      v = num::float_to_bf16(num::bf16_to_float(v) * (1.0f + 0.1f * static_cast<float>(row + 1)));
    }
  const Features f = rows.with(got);
  EXPECT_EQ(at(f, Feature::kRatioRow), 3);
  EXPECT_EQ(at(f, Feature::kRows), 3);
  EXPECT_EQ(likely_fault("", f).fault_class, FaultClass::kWrongScale);
}

TEST(Signature, AnotherRowAndAnotherOrderAreSeen) {
  const Rows rows;
  std::vector<uint16_t> moved(rows.expected.begin() + Rows::kWidth, rows.expected.end());
  moved.insert(moved.end(), rows.expected.begin(), rows.expected.begin() + Rows::kWidth);
  EXPECT_EQ(at(rows.with(moved), Feature::kShuffled), 1);
  std::vector<uint16_t> swapped = rows.expected;
  for (size_t i = 0; i + 1 < swapped.size(); i += 2) std::swap(swapped[i], swapped[i + 1]);
  EXPECT_EQ(at(rows.with(swapped), Feature::kShuffled), 2);
}

TEST(Signature, ALateDifferenceStartsLate) {
  const Rows rows;
  std::vector<uint16_t> got = rows.expected;
  got[static_cast<size_t>(17 * Rows::kWidth + 60)] ^= 1;
  const Features f = rows.with(got);
  EXPECT_EQ(at(f, Feature::kFirstRow), 3);
  EXPECT_EQ(at(f, Feature::kFirstColumn), 4);
  EXPECT_EQ(at(f, Feature::kRows), 1);
}

}  // namespace
}  // namespace zeroulp::verify
