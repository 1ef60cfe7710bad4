// Features of made differences, and the classes that they are taken for.
#include "verify/signature.h"

#include <gtest/gtest.h>

#include "num/bf16.h"
#include "num/philox.h"
#include "verify/faults/learn.h"

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

TEST(Signature, OfRunLogsLookAtRowsAlone) {
  std::vector<bool> differs(300, false);
  for (int64_t row = 128; row < 300; ++row) differs[static_cast<size_t>(row)] = true;
  const Features f = features_of_rows(differs, 3);
  EXPECT_EQ(at(f, Feature::kRows), 3);
  EXPECT_EQ(at(f, Feature::kFirstRow), 4);
  EXPECT_EQ(at(f, Feature::kLayer), 2);
  EXPECT_EQ(at(f, Feature::kLargest), -1);
  const Likely likely = likely_fault(kLogAttention, f);
  EXPECT_EQ(likely.fault_class, FaultClass::kCache) << likely.text();
}

// Models and layers that the table was not learnt from. docs/faults.md gives these figures.
TEST(Signature, HeldOutAccuracyIsAsCommitted) {
  const auto samples = held_out_samples(2);
  ASSERT_TRUE(samples) << samples.error().text;
  int64_t right = 0, judged = 0, log_right = 0, log_judged = 0;
  for (const Accuracy& a : accuracy_of(*samples)) {
    std::printf("[ accuracy ] %s: %lld of %lld\n", std::string(a.seen_at).c_str(), static_cast<long long>(a.right), static_cast<long long>(a.judged));
    const bool log = a.seen_at == kLogAttention || a.seen_at == kLogMlp;
    (log ? log_right : right) += a.right;
    (log ? log_judged : judged) += a.judged;
  }
  EXPECT_EQ(right, 1551);
  EXPECT_EQ(judged, 1815);
  EXPECT_EQ(log_right, 70);
  EXPECT_EQ(log_judged, 215);
}

}  // namespace
}  // namespace zeroulp::verify
