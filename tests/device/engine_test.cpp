// The engine on a GPU: the digests of the processor's reference over every axis, and the same tokens.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/gpu.h"
#include "engine/generate.h"
#include "model/seeded.h"
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

// Equal widths throughout, so that a sequence that is decoded alone takes the kernels that do their neighbours' work; either rule of the rows' scales.
TEST(GpuEngineAlone, DigestsAreTheReferences) {
  ZU_NEEDS_GPU();
  for (const int width : {8, 15})
    for (const bool pow2 : {false, true}) {
      model::SeededShape s;
      s.architecture = width == 8 ? "qwen3" : "qwen2";  // QK-norm, biases
      s.hidden = 256, s.intermediate = pow2 ? 208 : 384, s.heads = 7, s.kv_heads = 1, s.head_dim = 32, s.layers = 3, s.vocab = 301, s.width = width;
      s.key_width = width, s.tied_head = !pow2, s.pow2_row_scales = pow2, s.po2_scales = pow2, s.window = pow2 ? 150 : 0;
      const model::QuantizedModel model = model::make_seeded(s, 7);
      Workload work;
      work.decode_tokens = 6;
      int32_t value = 1;
      for (const int length : {1, 126, 300, 1022}) {
        std::vector<int32_t>& prompt = work.prompts.emplace_back();
        for (int i = 0; i < length; ++i) prompt.push_back(value = static_cast<int32_t>((value * 37 + 11) % 301));
      }
      const DigestLog want = must(run_digests(model, work, {}));
      for (const RunConfig& config : {RunConfig{.device = 0}, RunConfig{.device = 0, .graphs = false}, RunConfig{.batch = 3, .device = 0},
                                      RunConfig{.kernel = "cuda_dp4a", .device = 0}, RunConfig{.batch = 2, .ranks = 2, .device = 0}}) {
        const DigestLog got = must(run_digests(model, work, config));
        const LogDifference d = compare(want, got);
        const auto in_one_kernel = [&] { return std::any_of(got.graph_nodes.begin(), got.graph_nodes.end(), [](const std::string& n) { return n.find("linear_of_one_row") != std::string::npos; }); };
        if (config == RunConfig{.device = 0} || !config.kernel.empty()) {
          EXPECT_EQ(in_one_kernel(), config.kernel.empty()) << config.describe();
        }
        EXPECT_TRUE(d.holds()) << width << " bits, " << (pow2 ? "powers of two, " : "") << config.describe() << ": " << d.differing << " of " << d.compared
                               << " differ, first at sequence " << d.first.first << ", position " << d.first.second;
      }
    }
}

TEST(GpuEngineCache, BlocksThatTheProcessorMadeAreReadAndContinued) {
  ZU_NEEDS_GPU();
  const model::QuantizedModel model = must(tiny_model("llama"));
  std::vector<int32_t> prompt;
  for (int i = 0; i < 200; ++i) prompt.push_back(i * 7 % 50);
  using engine::Engine;
  std::unique_ptr<Engine> engines[2];
  int64_t ids[2];
  std::vector<float> logits[2];
  const auto forward = [&](int which, std::span<const int32_t> tokens) {
    const Engine::Chunk chunk{ids[which], tokens, Engine::Want::kLast};
    must(engines[which]->forward({&chunk, 1}, [&](const engine::LogitsBlock& b) -> Status {
      logits[which].assign(b.row(0), b.row(0) + model.config().vocab);
      return {};
    }));
  };
  for (const int which : {0, 1}) {
    engine::EngineOptions options;
    options.device = which - 1;
    engines[which] = must(Engine::create(model, options));
    ids[which] = engines[which]->open_sequence();
  }
  forward(0, std::span(prompt).first(199));
  must(engines[1]->restore_kv(ids[1], std::span(prompt).first(199), [&](int64_t layer, int64_t head, int64_t block, std::span<std::byte> to) {
    must(engines[0]->read_kv(ids[0], layer, head, block, to));
  }));
  for (const int which : {0, 1}) forward(which, std::span(prompt).last(1));
  ASSERT_EQ(logits[0].size(), logits[1].size());
  for (size_t i = 0; i < logits[0].size(); ++i) EXPECT_EQ(num::bits_of(logits[0][i]), num::bits_of(logits[1][i])) << i;
  // What each wrote itself: position 199 is slot 71 of block 1.
  for (int64_t layer = 0; layer < model.config().layers; ++layer)
    for (int64_t head = 0; head < model.config().kv_heads; ++head) {
      const ops::kv_cache::Layout layout = engines[0]->kv_layout(layer);
      std::vector<std::byte> blocks[2];
      for (const int which : {0, 1}) {
        blocks[which].resize(static_cast<size_t>(layout.bytes()));
        must(engines[which]->read_kv(ids[which], layer, head, 1, blocks[which]));
      }
      const ops::kv_cache::View<const std::byte> a(blocks[0].data(), layout), b(blocks[1].data(), layout);
      for (int64_t slot = 0; slot <= 71; ++slot) {
        EXPECT_EQ(num::bits_of(a.key_scales[slot]), num::bits_of(b.key_scales[slot]));
        EXPECT_EQ(a.value_exponents[slot], b.value_exponents[slot]);
        for (int64_t i = 0; i < layout.d; ++i) {
          EXPECT_EQ(a.key_hi[slot * layout.d + i], b.key_hi[slot * layout.d + i]);
          EXPECT_EQ(a.values[i * 128 + slot], b.values[i * 128 + slot]);
        }
      }
    }
}

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
