// The main claim on tiny models: the full product of the axes gives one set of bits, and a planted dependence on any axis is seen.
#include "verify/digests.h"

#include <gtest/gtest.h>

#include "model/seeded.h"
#include "num/philox.h"

namespace zeroulp::verify {
namespace {

using model::SeededShape;

std::vector<int32_t> random_prompt(int64_t length, int64_t vocab, uint64_t seed) {
  num::PhiloxStream random(seed, 99);
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab))));
  return prompt;
}

// Lengths around a block, and some that share a prefix.
Workload tiny_workload(const model::QuantizedModel& m) {
  Workload work;
  const std::vector<int32_t> base = random_prompt(150, m.config().vocab, 5);
  for (const int64_t length : {127, 128, 129, 3, 1, 20}) work.prompts.emplace_back(base.begin(), base.begin() + length);
  work.prompts.push_back(random_prompt(9, m.config().vocab, 6));
  work.prompts.push_back(random_prompt(17, m.config().vocab, 7));
  work.decode_tokens = 2;
  return work;
}

std::vector<std::string> kernels_here() {
  std::vector<std::string> names;
  for (const ops::VariantStatus& v : ops::variant_status(cpu_features()))
    if (v.why_not.empty()) names.push_back(v.name);
  return names;
}

SeededShape shape_of(const std::string& family) {
  SeededShape s;
  s.architecture = family;
  s.hidden = 48, s.intermediate = 80, s.heads = 3, s.kv_heads = 1, s.head_dim = 16, s.layers = 2, s.vocab = 61;
  s.width = 0;      // both widths
  s.key_width = 0;  // both
  if (family == "qwen2") s.heads = 6, s.kv_heads = 2, s.head_dim = 8, s.tied_head = false;
  if (family == "qwen3") s.heads = 4, s.kv_heads = 2, s.head_dim = 24, s.window = 100;
  return s;
}

class FullProduct : public ::testing::TestWithParam<std::string> {};

TEST_P(FullProduct, OneSetOfBits) {
  const model::QuantizedModel m = model::make_seeded(shape_of(GetParam()), 1);
  const Workload work = tiny_workload(m);
  const auto want = run_digests(m, work, {.kernel = "reference"});
  ASSERT_TRUE(want) << want.error().text;
  ASSERT_GT(want->digests.size(), 400u);
  int runs = 0;
  for (const std::string& kernel : kernels_here())
    for (const int threads : {1, 2, 3})
      for (const int batch : {1, 2, 3, 8})
        for (const int64_t chunk : {1, 7, 64, 0})
          for (const int ranks : {1, 2, 3, 4})
            for (const bool prefix : {false, true}) {
              ++runs;
              const RunConfig config{.kernel = kernel, .threads = threads, .batch = batch, .chunk = chunk, .ranks = ranks, .prefix_cache = prefix};
              const auto got = run_digests(m, work, config);
              ASSERT_TRUE(got) << config.describe() << ": " << got.error().text;
              const LogDifference d = compare(*want, *got);
              ASSERT_TRUE(d.holds()) << config.describe() << ": " << d.differing << " of " << d.compared << " differ, first at sequence "
                                     << d.first.first << " position " << d.first.second;
            }
  RecordProperty("runs", runs);
}

INSTANTIATE_TEST_SUITE_P(Families, FullProduct, ::testing::Values("llama", "qwen2", "qwen3"), [](const auto& param) { return param.param; });

TEST(PowerOfTwoRows, OneSetOfBitsAndAnother) {
  SeededShape shape = shape_of("llama");
  const model::QuantizedModel plain = model::make_seeded(shape, 1);
  shape.pow2_row_scales = true;
  const model::QuantizedModel m = model::make_seeded(shape, 1);
  EXPECT_NE(m.identity(), plain.identity());
  const Workload work = tiny_workload(m);
  const auto want = run_digests(m, work, {.kernel = "reference"}), other = run_digests(plain, work, {.kernel = "reference"});
  ASSERT_TRUE(want && other);
  EXPECT_FALSE(compare(*want, *other).holds());
  for (const std::string& kernel : kernels_here())
    for (const int ranks : {1, 3}) {
      const RunConfig config{.kernel = kernel, .threads = 2, .batch = 3, .chunk = 7, .ranks = ranks};
      const auto got = run_digests(m, work, config);
      ASSERT_TRUE(got) << config.describe() << ": " << got.error().text;
      EXPECT_TRUE(compare(*want, *got).holds()) << config.describe();
    }
}

// An axis: two configurations that differ in nothing else. The prefix cache is compared in chunks of 64: a hit then moves no chunk's ends.
struct AxisPair {
  engine::Plant plant;
  RunConfig base, varied;
};

TEST(Plants, EachIsSeenOnItsOwnAxisAndOnNoOther) {
  const model::QuantizedModel m = model::make_seeded(shape_of("llama"), 1);
  const Workload work = tiny_workload(m);
  const RunConfig base{.kernel = "reference"};
  std::vector<AxisPair> axes = {
      {engine::Plant::kThreads, base, {.kernel = "reference", .threads = 2}},
      {engine::Plant::kBatch, base, {.kernel = "reference", .batch = 3}},
      {engine::Plant::kChunk, base, {.kernel = "reference", .chunk = 1}},
      {engine::Plant::kTensorParallel, base, {.kernel = "reference", .ranks = 2}},
      {engine::Plant::kPrefixCache, {.kernel = "reference", .chunk = 64}, {.kernel = "reference", .chunk = 64, .prefix_cache = true}},
  };
  if (kernels_here().size() > 1) axes.push_back({engine::Plant::kVariant, base, {.kernel = kernels_here().back()}});
  for (const AxisPair& planted : axes) {
    for (const AxisPair& axis : axes) {
      const auto want = run_digests(m, work, axis.base, planted.plant), got = run_digests(m, work, axis.varied, planted.plant);
      ASSERT_TRUE(want && got);
      EXPECT_EQ(compare(*want, *got).holds(), axis.plant != planted.plant)
          << "plant " << engine::kPlantNames[static_cast<size_t>(planted.plant)] << ", " << axis.varied.describe();
    }
  }
}

TEST(Digests, NothingInCommonDoesNotHold) {
  DigestLog a, b;
  a.digests[{0, 1}] = {1, 2};
  b.digests[{0, 2}] = {1, 2};
  EXPECT_FALSE(compare(a, b).holds());
  EXPECT_TRUE(compare(a, a).holds());
}

TEST(Engine, RefusesWhatItCannotDoBeforeComputing) {
  const model::QuantizedModel m = model::make_seeded({}, 1);
  auto engine = engine::Engine::create(m, {.max_rows = 8, .max_context = 10, .max_total_positions = 128});
  ASSERT_TRUE(engine);
  const auto id = (*engine)->open_sequence();
  const engine::LogitsSink sink = [](const engine::LogitsBlock&) -> Status { return {}; };
  const auto forward = [&](std::vector<int32_t> tokens) {
    const engine::Engine::Chunk chunk{id, tokens};
    const Status s = (*engine)->forward(std::span(&chunk, 1), sink);
    return s ? std::string() : s.error().text;
  };
  EXPECT_NE(forward({96}).find("outside the model's vocabulary"), std::string::npos);
  EXPECT_NE(forward({-1}).find("outside the model's vocabulary"), std::string::npos);
  EXPECT_NE(forward(std::vector<int32_t>(9, 1)).find("9 tokens in one pass"), std::string::npos);
  EXPECT_EQ(forward(std::vector<int32_t>(8, 1)), "");
  EXPECT_NE(forward({1, 1, 1}).find("context"), std::string::npos);
  EXPECT_EQ(forward({1, 1}), "");
  EXPECT_FALSE(engine::Engine::create(m, {.kernel = "nonsense"}));
  EXPECT_FALSE(engine::Engine::create(m, {.threads = 0}));
}

}  // namespace
}  // namespace zeroulp::verify
