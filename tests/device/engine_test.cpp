// The engine on a GPU: the digests of the processor's reference over every axis, and the same tokens.
#include <gtest/gtest.h>

#include "device/gpu.h"
#include "engine/generate.h"
#include "verify/digests.h"
#include "verify/tiny.h"

namespace zeroulp::verify {
namespace {

using device::must;

class GpuEngine : public testing::TestWithParam<std::string_view> {};

TEST_P(GpuEngine, DigestsAreTheReferencesOverEveryAxis) {
  ZU_NEEDS_GPU();
  const model::QuantizedModel model = must(tiny_model(GetParam()));
  const Workload work = tiny_workload();
  const DigestLog want = must(run_digests(model, work, {.kernel = "reference"}));
  std::vector<RunConfig> configs = {{.device = 0}, {.device = 0, .graphs = false}, {.kernel = "cuda_ref", .device = 0}};
  for (const int batch : {2, 3, 8}) configs.push_back({.batch = batch, .device = 0});
  for (const int64_t chunk : {1, 7, 64}) configs.push_back({.batch = 2, .chunk = chunk, .device = 0});
  for (const int ranks : {2, 3, 5}) configs.push_back({.batch = 3, .ranks = ranks, .device = 0});
  configs.push_back({.batch = 2, .chunk = 64, .device = 0, .prefix_cache = true});
  for (const RunConfig& config : configs) {
    const DigestLog got = must(run_digests(model, work, config));
    const LogDifference d = compare(want, got);
    EXPECT_TRUE(d.holds()) << config.describe() << ": " << d.differing << " of " << d.compared << " differ, first at sequence " << d.first.first << ", position "
                           << d.first.second;
    EXPECT_EQ(got.graph_nodes.empty(), !config.graphs || config.ranks > 1) << config.describe();
  }
}

TEST_P(GpuEngine, SamplingOnTheGpuGivesTheProcessorsTokens) {
  ZU_NEEDS_GPU();
  const model::QuantizedModel model = must(tiny_model(GetParam()));
  std::vector<engine::Request> requests;
  for (uint64_t id = 0; id < 5; ++id) {
    engine::Request r;
    r.id = id;
    for (int32_t t = 0; t < 5 + static_cast<int32_t>(id); ++t) r.prompt.push_back((t * 7 + static_cast<int32_t>(id)) % 50);
    r.sampling = {id == 0 ? 0.0f : 0.7f, id == 2 ? 5 : 0, id == 3 ? 0.8 : 1.0, 11 + id};
    r.max_tokens = id == 4 ? 0 : 20;
    requests.push_back(r);
  }
  const auto tokens = [&](int gpu, bool digests) {
    engine::EngineOptions options;
    options.device = gpu;
    const auto engine = must(engine::Engine::create(model, options));
    std::vector<std::vector<int32_t>> all;
    for (const engine::Outcome& o : must(engine::generate(*engine, requests, 3, [](const engine::Step&) { return true; }, digests))) all.push_back(o.tokens);
    return all;
  };
  const auto want = tokens(-1, true);
  EXPECT_EQ(tokens(-1, false), want);
  EXPECT_EQ(tokens(0, true), want);
  EXPECT_EQ(tokens(0, false), want);
}

INSTANTIATE_TEST_SUITE_P(Families, GpuEngine, testing::ValuesIn(kTinyFamilies), [](const auto& i) { return std::string(i.param); });

TEST(GpuEngineErrors, AFaultNamesTheSamePlaceAsOnTheProcessor) {
  ZU_NEEDS_GPU();
  const model::QuantizedModel model = must(tiny_model("llama"));
  model::TensorMap tensors = model.tensors();
  // A norm's weight that leaves the range of every row of layer 1: the first is to be named.
  const std::string name = "layers.1.post_norm";
  ASSERT_TRUE(tensors.contains(name));
  std::vector<uint16_t> weights(static_cast<size_t>(model.config().hidden), 0x3F80);
  weights[3] = 0x7F00;
  tensors[name] = model::make_tensor(Dtype::kBF16, {model.config().hidden}, weights);
  const model::QuantizedModel broken = must(model::QuantizedModel::assemble(model.header(), tensors, "broken"));
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7, 8};
  std::string said[2];
  for (const int gpu : {-1, 0}) {
    engine::EngineOptions options;
    options.device = gpu;
    const auto engine = must(engine::Engine::create(broken, options));
    const engine::Engine::Chunk chunk{engine->open_sequence(), prompt, engine::Engine::Want::kAll};
    const Status status = engine->forward(std::span(&chunk, 1), [](const engine::LogitsBlock&) -> Status { return {}; });
    said[gpu + 1] = status ? "no fault" : status.error().text;
  }
  EXPECT_NE(said[0].find("layer 1, input of gate, up"), std::string::npos) << said[0];
  EXPECT_EQ(said[0], said[1]);
}

TEST(GpuEngineErrors, ACacheThatDoesNotFitIsOneLineWithNumbers) {
  ZU_NEEDS_GPU();
  const model::QuantizedModel model = must(tiny_model("llama"));
  engine::EngineOptions options;
  options.device = 0;
  options.max_total_positions = int64_t{1} << 31;
  const auto engine = engine::Engine::create(model, options);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ExitCode::kUnavailable);
  EXPECT_NE(engine.error().text.find("the KV cache"), std::string::npos) << engine.error().text;
}

}  // namespace
}  // namespace zeroulp::verify
