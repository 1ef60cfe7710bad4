#include "verify/locate.h"

#include <gtest/gtest.h>

#include "num/bf16.h"
#include "num/bits.h"
#include "verify/axes.h"
#include "verify/tiny.h"

namespace zeroulp::verify {
namespace {

using engine::Plant;
using engine::TraceOp;

TEST(Locate, EqualRunsHaveNoFirstDifference) {
  const auto model = tiny_model("qwen3");
  const auto d = locate(*model, tiny_workload(), {.kernel = "reference"}, {.threads = 3, .batch = 3, .chunk = 7, .ranks = 2}, Plant::kNone);
  ASSERT_TRUE(d) << d.error().text;
  EXPECT_FALSE(d->has_value());
}

// Every planted fault is found in the op that it was planted into, in the first layer (the head: behind the last), and not in what follows from it.
TEST(Locate, FindsTheOpOfEveryPlant) {
  const RunConfig base = {.kernel = "reference"};
  struct Case {
    Plant plant;
    RunConfig varied;
    TraceOp op;
  };
  std::vector<Case> cases = {{Plant::kThreads, {.kernel = "reference", .threads = 3}, TraceOp::kO},
                             {Plant::kBatch, {.kernel = "reference", .batch = 4}, TraceOp::kQ},
                             {Plant::kChunk, {.kernel = "reference", .chunk = 1}, TraceOp::kInputNorm},
                             {Plant::kTensorParallel, {.kernel = "reference", .ranks = 2}, TraceOp::kO},
                             {Plant::kPrefixCache, {.kernel = "reference", .prefix_cache = true}, TraceOp::kAttention},
                             {Plant::kHead, {.kernel = "reference", .threads = 3}, TraceOp::kHead}};
  const auto kernels = Axes::on_this_machine(true).kernels;
  if (kernels.front() != "reference") cases.push_back({Plant::kVariant, {.kernel = kernels.front()}, TraceOp::kQ});
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    const auto model = tiny_model(family);
    for (const Case& c : cases) {
      const std::string name = std::string(family) + " " + std::string(engine::kPlantNames[static_cast<size_t>(c.plant)]);
      const auto found = locate(*model, tiny_workload(), base, c.varied, c.plant);
      ASSERT_TRUE(found) << name << ": " << found.error().text;
      ASSERT_TRUE(found->has_value()) << name;
      const FirstDifference& d = **found;
      EXPECT_EQ(d.layer, c.op == TraceOp::kHead ? model->config().layers : 0) << name << ": " << d.text();
      EXPECT_EQ(d.op, c.op) << name << ": " << d.text();
      EXPECT_GE(d.index, 0) << name;
      EXPECT_NE(d.a, d.b) << name;
      EXPECT_GE(d.differing, 1) << name;
      EXPECT_LE(d.differing, d.width) << name;
      EXPECT_GE(d.rows_differing, 1) << name;
      EXPECT_NE(d.likely.fault_class, FaultClass::kNone) << name << ": " << d.text();
    }
  }
}

// Logits are fp32, of the whole vocabulary, and their difference is that of the fault: a rounding to bf16.
TEST(Locate, OfTheHeadItSaysTheLogits) {
  const auto model = tiny_model("llama");
  const auto found = locate(*model, tiny_workload(), {.kernel = "reference"}, {.kernel = "reference", .threads = 2, .batch = 2, .chunk = 5}, Plant::kHead);
  ASSERT_TRUE(found) << found.error().text;
  ASSERT_TRUE(found->has_value());
  const FirstDifference& d = **found;
  EXPECT_TRUE(d.in_fp32());
  EXPECT_EQ(d.width, model->config().vocab);
  EXPECT_EQ(d.b, uint32_t{num::float_to_bf16(num::float_of(d.a))} << 16) << d.text();
  EXPECT_NE(d.text().find(d.hex(d.b)), std::string::npos) << d.text();
  EXPECT_NE(d.text().find(", head, "), std::string::npos) << d.text();
  EXPECT_EQ(d.likely.fault_class, FaultClass::kExtraRounding) << d.text();
}

// With several ranks every rank's logits are gathered before they are told.
TEST(Locate, ShardedHeadsAreComparedWhole) {
  const auto model = tiny_model("llama");
  const auto found = locate(*model, tiny_workload(), {.kernel = "reference", .ranks = 2}, {.kernel = "reference", .threads = 2}, Plant::kHead);
  ASSERT_TRUE(found && found->has_value());
  EXPECT_EQ((*found)->op, TraceOp::kHead) << (*found)->text();
}

TEST(Locate, SaysWhereInOneLine) {
  FirstDifference d;
  d.sequence = 1, d.position = 5, d.layer = 3, d.op = TraceOp::kDown, d.token = 42, d.index = 7, d.a = 0x3f80, d.b = 0x3f81, d.differing = 2, d.width = 48, d.rows = 17, d.rows_differing = 9;
  d.likely = {FaultClass::kLostElements, 0.83, "k-last"};
  EXPECT_EQ(d.text(),
            "layer 3, down_proj, sequence 1, position 5 (token 42), element 7: 1 (0x3f80) against 1.0078125 (0x3f81); 2 of the row's 48 elements and 9 of 17 rows "
            "differ; likeliest cause: elements left out (83 %, as in 'k-last')");
}

}  // namespace
}  // namespace zeroulp::verify
