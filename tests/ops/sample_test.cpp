#include "ops/sample/contract.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/fp_env.h"
#include "ops/argmax/contract.h"
#include "ops/case_inputs.h"

namespace zeroulp::ops::sample {
namespace {

class Sample : public testing::Test {
 protected:
  static int64_t draw(const std::vector<float>& logits, const Settings& s, uint32_t position, uint64_t request) {
    Sampler sampler(static_cast<int64_t>(logits.size()));
    return sampler.draw(logits.data(), static_cast<int64_t>(logits.size()), s, position, request);
  }

 private:
  FpEnvScope fp_env_;
};

// The words of the random number by their definition: key = seed, counter = (position, request low, request high, purpose).
TEST_F(Sample, RandomBitsAreWordsZeroAndOneOfThePhiloxBlock) {
  Settings s;
  s.seed = 0x0123456789ABCDEF;
  const num::PhiloxCounter block = num::philox_4x32_10({7, 0x44332211, 0x88776655, kPurposeToken}, s.seed);
  EXPECT_EQ(random_bits(s, 7, 0x8877665544332211), (uint64_t{block[0]} << 32) | block[1]);
  EXPECT_NE(random_bits(s, 7, 1), random_bits(s, 8, 1));
  EXPECT_NE(random_bits(s, 7, 1), random_bits(s, 7, uint64_t{1} << 32)) << "the request's high half counts";
  EXPECT_NE(random_bits(s, 7, 1), random_bits(s, 7, 1, 1)) << "another purpose is another stream";
}

// A draw depends on the seed, the request and the position alone: another sampler, another order of draws, other requests between give
// the same tokens.
TEST_F(Sample, ADrawDependsOnNothingElse) {
  num::PhiloxStream random(5);
  std::vector<float> logits(300);
  for (float& l : logits) l = conformance::bell(random, 2.0f);
  const Settings s{0.9f, 0, 0.95, 99};
  Sampler shared(300);
  std::vector<int64_t> forwards, backwards;
  for (uint32_t p = 0; p < 50; ++p) {
    shared.draw(logits.data(), 300, s, p, 1000 + p);
    forwards.push_back(shared.draw(logits.data(), 300, s, p, 3));
  }
  for (uint32_t p = 50; p-- > 0;) backwards.insert(backwards.begin(), draw(logits, s, p, 3));
  EXPECT_EQ(forwards, backwards);
}

TEST_F(Sample, TemperatureZeroIsArgmaxOnEveryVariant) {
  num::PhiloxStream random(6);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits(1 + random.below(200));
    for (float& l : logits) l = std::floor(random.symmetric() * 8.0f);
    const int64_t token = draw(logits, Settings{}, static_cast<uint32_t>(i), 1);
    for (const auto& v : argmax::variants()) {
      if (!why_unavailable(v.needs, cpu_features()).empty()) continue;
      argmax::Args a{logits.data(), static_cast<int64_t>(logits.size())};
      v.run(a);
      EXPECT_EQ(token, a.index) << v.name;
    }
  }
}

TEST_F(Sample, LogitsThatAreNotFiniteAreAnErrorAtAnyTemperature) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const float t : {0.0f, 1.0f}) {
      Settings s;
      s.temperature = t;
      EXPECT_EQ(draw({1.0f, bad, 0.0f}, s, 0, 0), -1);
    }
  }
}

TEST_F(Sample, TopKOneIsArgmaxAlsoWithTies) {
  Settings s{1.0f, 1, 1.0, 0};
  for (uint32_t p = 0; p < 64; ++p) {
    EXPECT_EQ(draw({0.0f, 1.0f, 1.0f, -3.0f}, s, p, 0), 1);
    EXPECT_EQ(draw({-0.0f, 0.0f}, s, p, 0), 0) << "-0 equals +0";
  }
}

// Equal logits enter in ascending order of index.
TEST_F(Sample, TopKTakesTheLowestIndicesOfATie) {
  const std::vector<float> logits = {0, 2, 2, 5, 2, 2};
  Settings s{1.0f, 3, 1.0, 0};
  std::vector<int> seen(6);
  for (uint32_t p = 0; p < 2000; ++p) ++seen[static_cast<size_t>(draw(logits, s, p, 0))];
  EXPECT_GT(seen[1], 0);
  EXPECT_GT(seen[2], 0);
  EXPECT_GT(seen[3], 0);
  EXPECT_EQ(seen[0] + seen[4] + seen[5], 0);
}

// Weights 1/2, 1/4, 1/8, 1/8 exactly, as logits 0, -1, -2, -2 powers of two: T = log2(e) makes the factor 1.
TEST_F(Sample, TopPEndsAtTheExactBoundary) {
  const std::vector<float> logits = {-2, 0, -1, -2};
  Settings s{num::kLog2E, 0, 0.75, 0};
  ASSERT_EQ(num::kLog2E / s.temperature, 1.0f);
  const auto seen = [&] {
    std::vector<int> count(4);
    for (uint32_t p = 0; p < 4000; ++p) ++count[static_cast<size_t>(draw(logits, s, p, 0))];
    return count;
  };
  std::vector<int> at = seen();
  EXPECT_EQ(at[0] + at[3], 0) << "3/4 is reached by the first two";
  EXPECT_GT(at[2], 0);
  s.top_p = 0.75 + 1.0 / 65536;
  at = seen();
  EXPECT_GT(at[0], 0) << "one unit more needs the next, and of the equal ones the lower index";
  EXPECT_EQ(at[3], 0);
  s.top_p = 0.5;
  EXPECT_EQ(seen()[1], 4000);
  s.top_p = 1e-9;
  EXPECT_EQ(seen()[1], 4000) << "never empty";
  s.top_p = 1.0;
  EXPECT_GT(seen()[3], 0);
}

// top-p is taken of what top-k kept.
TEST_F(Sample, TopPComesAfterTopK) {
  const std::vector<float> logits = {0, -1, -2, -2};
  Settings s{num::kLog2E, 2, 0.66, 0};  // 1/2 of 3/4 kept is 2/3 of it
  for (uint32_t p = 0; p < 500; ++p) EXPECT_EQ(draw(logits, s, p, 0), 0);
}

TEST_F(Sample, TheDrawWalksAscendingIndices) {
  const std::vector<float> logits = {-1, 0, -1};  // weights 1, 2, 1 of 4
  Settings s{num::kLog2E, 0, 1.0, 42};
  for (uint32_t p = 0; p < 1000; ++p) {
    const uint64_t mark = random_bits(s, p, 9) >> 62;  // quarters
    EXPECT_EQ(draw(logits, s, p, 9), mark == 0 ? 0 : mark == 3 ? 2 : 1);
  }
}

TEST_F(Sample, FrequenciesFitTheDistribution) {
  num::PhiloxStream random(8);
  std::vector<float> logits(20);
  for (float& l : logits) l = random.symmetric() * 2.0f;
  for (const float t : {0.5f, 1.0f, 2.0f}) {
    const Settings s{t, 0, 1.0, 7};
    std::vector<double> weight;
    double sum = 0;
    for (const float l : logits) sum += weight.emplace_back(std::exp(static_cast<double>(l) / t));
    constexpr int kDraws = 40000;
    std::vector<int> seen(logits.size());
    for (uint32_t p = 0; p < kDraws; ++p) ++seen[static_cast<size_t>(draw(logits, s, p, 1))];
    double chi2 = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const double expected = weight[i] / sum * kDraws;
      ASSERT_GT(expected, 5);
      chi2 += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    EXPECT_LT(chi2, 43.82) << "temperature " << t << "; the 99.9 % quantile with 19 degrees of freedom";
  }
}

}  // namespace
}  // namespace zeroulp::ops::sample
