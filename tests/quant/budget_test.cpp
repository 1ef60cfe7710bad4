#include "quant/budget.h"

#include <gtest/gtest.h>

#include "quant/options.h"

namespace zeroulp::quant {
namespace {

std::vector<WidthGroup> groups_of(std::vector<int64_t> multiply_adds) {
  std::vector<WidthGroup> out;
  for (const int64_t m : multiply_adds) out.push_back({"g" + std::to_string(out.size()), {}, m});
  return out;
}

// Divergence that adds up, times `interaction` for every group beyond the first.
Measure additive(std::vector<double> rises, double interaction = 1) {
  return [=](const std::vector<size_t>& narrow) -> Result<double> {
    double sum = 0.005;
    for (const size_t g : narrow) sum += rises[g] * (narrow.size() > 1 ? interaction : 1);
    return sum;
  };
}

TEST(Budget, TakesTheCheapestPerMultiplyAdd) {
  const auto groups = groups_of({100, 100, 10, 400});
  const auto choice = choose_groups(groups, 0.0085, additive({0.001, 0.004, 0.001, 0.002}));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->narrow, (std::vector<size_t>{0, 3}));
  EXPECT_DOUBLE_EQ(choice->kl, 0.008);
  EXPECT_DOUBLE_EQ(choice->wide_kl, 0.005);
}

TEST(Budget, StepsDownWhenRisesAddUpToMore) {
  const auto groups = groups_of({100, 100, 10, 400});
  const auto choice = choose_groups(groups, 0.0085, additive({0.001, 0.004, 0.001, 0.002}, 1.5));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->narrow, (std::vector<size_t>{3}));
  EXPECT_LE(choice->kl, 0.0085);
}

TEST(Budget, StepsUpWhenTheyAddUpToLess) {
  const auto groups = groups_of({100, 100, 10, 400});
  const auto choice = choose_groups(groups, 0.0085, additive({0.001, 0.004, 0.001, 0.002}, 0.5));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->narrow, (std::vector<size_t>{0, 1, 3})) << "0.005 + 0.0035 is just within";
}

TEST(Budget, GoesPastWhatDoesNotFit) {
  // The second cheapest is a large one that the budget does not bear.
  const auto choice = choose_groups(groups_of({100, 1000, 50, 10}), 0.0085, additive({0.001, 0.011, 0.001, 0.002}));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->narrow, (std::vector<size_t>{0, 2}));
  EXPECT_DOUBLE_EQ(choice->kl, 0.007);
}

TEST(Budget, ChanceBelowZeroIsNoGainToSpend) {
  const auto choice = choose_groups(groups_of({1, 1, 1}), 0.006, additive({-0.01, 0.002, 0.003}));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->rises[0], 0.005 - 0.01 - 0.005);
  EXPECT_LE(choice->kl, 0.006);
}

TEST(Budget, RefusesWhatNoWidthCanGive) {
  const auto choice = choose_groups(groups_of({1}), 0.004, additive({0.001}));
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, ExitCode::kAnswerIsNo);
}

TEST(Budget, GroupsCoverEveryLinearOnce) {
  model::ModelConfig c;
  c.hidden = 8, c.intermediate = 12, c.layers = 5, c.heads = 2, c.kv_heads = 1, c.head_dim = 4, c.vocab = 16;
  std::map<std::string, int> seen;
  int64_t multiply_adds = 0;
  for (const WidthGroup& g : width_groups(c)) {
    multiply_adds += g.multiply_adds;
    for (const std::string& linear : g.linears) ++seen[linear];
  }
  EXPECT_EQ(multiply_adds, 16 * 8 + 5 * (8 * 8 * 2 + 4 * 8 * 2 + 3 * 8 * 12));
  const auto widths = linear_widths({}, c);
  EXPECT_EQ(seen.size(), widths.size());
  for (const auto& [name, width] : widths) EXPECT_EQ(seen[name], 1) << name;
}

}  // namespace
}  // namespace zeroulp::quant
