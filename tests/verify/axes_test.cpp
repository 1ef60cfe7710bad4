#include "verify/axes.h"

#include <gtest/gtest.h>

#include <set>

#include "verify/tiny.h"
#include "verify/verify.h"

namespace zeroulp::verify {
namespace {

TEST(Covering, EveryPairOccursInFewRows) {
  for (const std::vector<int>& sizes : {std::vector<int>{3, 3, 4, 4, 4, 2}, {1, 2}, {2, 2, 2}, {5, 1, 3, 2}, {2, 3, 4, 4, 4, 2}}) {
    const auto rows = pairwise_covering_array(sizes);
    const PairCoverage c = pair_coverage(sizes, rows);
    EXPECT_EQ(c.covered, c.total);
    EXPECT_LE(rows.size(), 40u);
    EXPECT_EQ(rows[0], std::vector<int>(sizes.size(), 0));
  }
  const std::vector<int> sizes = {3, 3, 4, 4, 4, 2};
  auto rows = pairwise_covering_array(sizes);
  rows.pop_back();
  EXPECT_LT(pair_coverage(sizes, rows).covered, pair_coverage(sizes, rows).total) << "no row is idle";
}

TablePlan plan_with(engine::Plant plant) {
  TablePlan plan;
  plan.baseline = {.kernel = "reference"};
  plan.axes = Axes::on_this_machine(true);
  plan.max_runs = 16;
  plan.plant = plant;
  return plan;
}

TEST(DigestTable, HoldsOnATinyModelAndRefusesToHoldOnNothing) {
  const auto model = tiny_model("qwen3");
  const auto table = run_digest_table(*model, tiny_workload(), plan_with(engine::Plant::kNone), nullptr);
  ASSERT_TRUE(table);
  EXPECT_TRUE(table->holds());
  EXPECT_TRUE(table->guilty_axes.empty());
  EXPECT_GT(table->rows.size(), 10u);
  EXPECT_FALSE(DigestTable{}.holds());
}

// What `zeroulp verify --plant` promises: the check fails and names the axis.
TEST(DigestTable, NamesTheAxisOfEveryPlant) {
  const auto model = tiny_model("llama");
  std::vector<std::pair<engine::Plant, std::string>> plants = {{engine::Plant::kThreads, "threads"},
                                                               {engine::Plant::kBatch, "batch"},
                                                               {engine::Plant::kChunk, "prefill chunk"},
                                                               {engine::Plant::kTensorParallel, "tensor-parallel degree"},
                                                               {engine::Plant::kPrefixCache, "prefix cache"},
                                                               {engine::Plant::kHead, "threads"}};
  if (Axes::on_this_machine(false).kernels.size() > 1) plants.emplace_back(engine::Plant::kVariant, "kernel");
  for (const auto& [plant, axis] : plants) {
    const auto table = run_digest_table(*model, tiny_workload(), plan_with(plant), nullptr);
    ASSERT_TRUE(table);
    EXPECT_FALSE(table->holds()) << axis;
    EXPECT_EQ(table->guilty_axes, std::vector<std::string>{axis});
    Answer answer;
    answer.digests = *table;
    EXPECT_FALSE(answer.holds());
    EXPECT_NE(answer.verdict().find(axis), std::string::npos) << answer.verdict();
  }
}

}  // namespace
}  // namespace zeroulp::verify
