#include "quant/smoothing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/float_decoder.h"
#include "io/temporary_folder.h"
#include "model/tensor_names.h"
#include "model/tiny_folder.h"
#include "num/philox.h"
#include "num/weight_scale.h"
#include "quant/absorb.h"
#include "real_models.h"

namespace zeroulp::quant {
namespace {

using model::LinearRole;

// Tensors by Hugging Face's names, whole.
using Tensors = std::map<std::string, std::vector<float>, std::less<>>;

engine::FloatWeights weights_from(const Tensors& tensors, const model::ModelConfig& c) {
  engine::FloatWeights w;
  w.vector = [&tensors](std::string_view name) -> Result<std::vector<float>> { return tensors.find(name)->second; };
  w.rows = [&tensors, &c](std::string_view name, int64_t begin, int64_t end) -> Result<std::vector<float>> {
    const auto& all = tensors.find(name)->second;
    int64_t k = c.hidden;
    if (name.find("o_proj") != std::string_view::npos) k = c.q_size();
    if (name.find("down_proj") != std::string_view::npos) k = c.intermediate;
    return std::vector<float>(all.begin() + begin * k, all.begin() + end * k);
  };
  return w;
}

std::vector<float> as_floats(const std::vector<uint16_t>& bits) {
  std::vector<float> out;
  for (const uint16_t b : bits) out.push_back(num::bf16_to_float(b));
  return out;
}

void put_layer(Tensors& tensors, int64_t layer, const FloatLayer& l) {
  const auto name = [&](const std::string& part) { return model::layer_tensor_name(layer, part); };
  for (int r = 0; r < model::kLinearsPerLayer; ++r) {
    const auto role = static_cast<LinearRole>(r);
    const std::string part = (role <= LinearRole::kO ? "self_attn." : "mlp.") + std::string(model::kLinearNames[r]);
    tensors[name(part + ".weight")] = l[role].weights;
    if (!l[role].bias.empty()) tensors[name(part + ".bias")] = l[role].bias;
  }
  tensors[name("input_layernorm.weight")] = as_floats(l.input_norm);
  tensors[name("post_attention_layernorm.weight")] = as_floats(l.post_norm);
  if (!l.q_norm.empty()) tensors[name("self_attn.q_norm.weight")] = as_floats(l.q_norm);
  if (!l.k_norm.empty()) tensors[name("self_attn.k_norm.weight")] = as_floats(l.k_norm);
}

// A small model of each family: two query heads to a KV head.
model::Checkpoint small_model(const std::filesystem::path& folder, const char* family) {
  io::Json config = model::tiny_config(family);
  config["hidden_size"] = 16;
  config["num_attention_heads"] = 4;
  config["num_key_value_heads"] = 2;
  config["head_dim"] = 4;
  auto tensors = model::tiny_tensors(config);
  uint64_t stream = 0;
  for (auto& [name, t] : tensors) {
    num::PhiloxStream random(17, stream++);
    std::vector<float> values(t.bytes.size() / 2);
    for (float& v : values) v = name.find("norm") != std::string::npos ? 1 + random.symmetric() / 2 : random.symmetric();
    t.bytes = model::float_bytes(values, Dtype::kBF16);
  }
  model::write_folder(folder, config, tensors);
  auto checkpoint = model::Checkpoint::open(folder);
  EXPECT_TRUE(checkpoint) << checkpoint.error().text;
  return *std::move(checkpoint);
}

std::vector<int> random_shifts(int64_t n, int most, num::PhiloxStream& random) {
  std::vector<int> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<int>(random.below(static_cast<uint64_t>(2 * most + 1))) - most);
  return out;
}

std::vector<float> logits_of(const model::ModelConfig& c, const engine::FloatDecoder& decoder) {
  std::vector<float> out;
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 15, 0, 11, 13};
  EXPECT_TRUE(decoder.forward(tokens, [&](const engine::LogitsBlock& b) -> Status {
    for (int64_t r = 0; r < b.rows; ++r) out.insert(out.end(), b.row(r), b.row(r) + c.vocab);
    return {};
  }));
  return out;
}

std::vector<float> logits_of(const model::ModelConfig& c, const Tensors& tensors) {
  ThreadPool pool(2);
  const auto weights = weights_from(tensors, c);
  const auto decoder = engine::FloatDecoder::create(c, weights, {}, pool);
  EXPECT_TRUE(decoder);
  return logits_of(c, *decoder);
}

TEST(Smoothing, ChangesNoBitOfTheReferencePath) {
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    for (const int most : {2, kMaxShift}) {
      TemporaryFolder folder;
      const auto checkpoint = small_model(folder.path(), family);
      const model::ModelConfig& c = checkpoint.config();
      Tensors plain, smoothed;
      for (const char* name : {model::kEmbeddingName, model::kFinalNormName, model::kHeadName})
        plain[name] = smoothed[name] = *checkpoint.floats(name);
      num::PhiloxStream random(99);
      int64_t changed = 0;
      for (int64_t layer = 0; layer < c.layers; ++layer) {
        auto l = load_layer(checkpoint, layer);
        ASSERT_TRUE(l);
        put_layer(plain, layer, *l);
        Shifts s;
        s.qkv = random_shifts(c.hidden, most, random), s.mlp = random_shifts(c.hidden, most, random);
        s.down = random_shifts(c.intermediate, most, random), s.o = random_shifts(c.kv_size(), most, random);
        s.keys = random_shifts(c.kv_size() / 2, most, random);
        EXPECT_EQ(keep_exact(s, c, *l), 0);
        ASSERT_TRUE(fold(*l, c, s));
        put_layer(smoothed, layer, *l);
      }
      for (const auto& [name, values] : plain) changed += values != smoothed[name];
      EXPECT_GE(changed, 16) << "almost every tensor of two layers must have moved";
      const auto before = logits_of(c, plain), after = logits_of(c, smoothed);
      ASSERT_EQ(before.size(), after.size());
      for (size_t i = 0; i < before.size(); ++i) ASSERT_EQ(num::bits_of(before[i]), num::bits_of(after[i])) << family << " " << most << " " << i;
    }
  }
}

// The same on the weights of a real model, where small weights meet large shifts: every layer with shifts as far as they stay exact.
TEST(SmoothingReal, ChangesNoBitOfTheReferencePath) {
  const auto folder = models_folder() / "smollm2";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent; ./dev models smollm2 makes it";
  const auto checkpoint = model::Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint) << checkpoint.error().text;
  const model::ModelConfig& c = checkpoint->config();
  std::vector<float> before;
  {
    ThreadPool pool(2);
    const auto decoder = engine::FloatDecoder::create(*checkpoint, {}, pool);
    ASSERT_TRUE(decoder) << decoder.error().text;
    before = logits_of(c, *decoder);
  }
  Tensors smoothed;
  for (const char* name : {model::kEmbeddingName, model::kFinalNormName}) smoothed[name] = *checkpoint->floats(name);
  if (!c.tied_head) smoothed[model::kHeadName] = *checkpoint->floats(model::kHeadName);
  num::PhiloxStream random(5);
  int64_t moved = 0, shifts = 0;
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    auto l = load_layer(*checkpoint, layer);
    ASSERT_TRUE(l);
    Shifts s;
    s.qkv = random_shifts(c.hidden, kMaxShift, random), s.mlp = random_shifts(c.hidden, kMaxShift, random);
    s.down = random_shifts(c.intermediate, kMaxShift, random), s.o = random_shifts(c.kv_size(), kMaxShift, random);
    s.keys = random_shifts(c.kv_size() / 2, 6, random);
    keep_exact(s, c, *l);
    for (const auto* v : {&s.qkv, &s.mlp, &s.down, &s.o, &s.keys}) {
      shifts += static_cast<int64_t>(v->size());
      moved += std::count_if(v->begin(), v->end(), [](int shift) { return shift != 0; });
    }
    const Status folded = fold(*l, c, s);
    ASSERT_TRUE(folded) << folded.error().text;
    put_layer(smoothed, layer, *l);
  }
  EXPECT_GT(moved, shifts * 9 / 10) << "of " << shifts << ": most channels must have moved for this to show anything";
  const auto after = logits_of(c, smoothed);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) ASSERT_EQ(num::bits_of(before[i]), num::bits_of(after[i])) << i;
}

// A layer of ones.
FloatLayer plain_layer(const model::ModelConfig& c) {
  FloatLayer l;
  for (int r = 0; r < model::kLinearsPerLayer; ++r) {
    const auto role = static_cast<LinearRole>(r);
    const auto shape = model::linear_shape(c, role);
    l[role] = {shape.n, shape.k, std::vector<float>(static_cast<size_t>(shape.n * shape.k), 1.0f), {}};
  }
  l.input_norm.assign(static_cast<size_t>(c.hidden), 0x3F80);
  l.post_norm = l.input_norm;
  return l;
}

model::ModelConfig plain_config() {
  model::ModelConfig c;
  c.hidden = 8, c.intermediate = 6, c.heads = 2, c.kv_heads = 1, c.head_dim = 4, c.layers = 1;
  return c;
}

TEST(Smoothing, RefusesWhatWouldNotBeExact) {
  const model::ModelConfig c = plain_config();
  Shifts s;
  s.down.assign(6, 0);
  s.down[2] = 10;
  for (const float bad : {0x1p-120f, -0x1.5p-117f, 0x1p-130f}) {  // times 2^-10: subnormal, or subnormal already
    FloatLayer l = plain_layer(c);
    l[LinearRole::kUp].row(2)[5] = bad;
    const Status status = fold(l, c, s);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ExitCode::kBadInput);
    EXPECT_NE(status.error().text.find("up_proj"), std::string::npos) << status.error().text;
    Shifts kept = s;
    EXPECT_EQ(keep_exact(kept, c, l), 1);
    EXPECT_EQ(kept.down, std::vector<int>(6, 0));
  }
  FloatLayer large = plain_layer(c);
  large[LinearRole::kDown].row(7)[2] = 0x1p120f;  // times 2^10: infinite
  EXPECT_FALSE(fold(large, c, s));
  FloatLayer zero = plain_layer(c);
  zero[LinearRole::kUp].row(2)[5] = 0.0f;
  zero[LinearRole::kUp].row(2)[4] = 0x1p-116f;  // 2^-126 afterwards: the last normal number
  EXPECT_TRUE(fold(zero, c, s));
  EXPECT_EQ(zero[LinearRole::kUp].row(2)[4], 0x1p-126f);
  FloatLayer norm = plain_layer(c);
  norm.input_norm[1] = 0x0080;  // 2^-126
  Shifts qkv;
  qkv.qkv.assign(8, 0);
  qkv.qkv[1] = 1;
  EXPECT_FALSE(fold(norm, c, qkv));
}

TEST(Smoothing, BalancesInputsAgainstWeights) {
  const model::ModelConfig c = plain_config();
  const FloatLayer l = plain_layer(c);
  ChannelMaxima m;
  m.attention_in = {1, 4, 16, 64, 0.25f, 0, 1e30f, 2};
  m.mlp_in = m.attention_in, m.down_in = {1, 1, 1, 1, 1, 256}, m.o_in = {1, 1, 1, 1, 1, 1, 16, 1};
  m.keys = {1, 2, 1, 64};
  Shifts s;
  choose_input_shifts(s, c, l, m, 0.5);
  EXPECT_EQ(s.qkv, (std::vector<int>{0, 1, 2, 3, -1, -8, 20, 0})) << "half of log2, ties to even, at most 20";
  EXPECT_EQ(s.down, (std::vector<int>{0, 0, 0, 0, 0, 4}));
  EXPECT_EQ(s.o, (std::vector<int>{0, 0, 2, 0})) << "one s for both query heads";
  choose_key_shifts(s, c, m);
  EXPECT_EQ(s.keys, (std::vector<int>{0, 6})) << "pairs (0, 2) and (1, 3), against the lower median";
}

TEST(Absorb, FillsTheCodesAndKeepsTheProduct) {
  model::ModelConfig c = plain_config();
  c.heads = 4, c.kv_heads = 2;
  FloatLayer before = plain_layer(c);
  num::PhiloxStream random(8);
  for (FloatLinear& l : before.linears)
    for (float& w : l.weights) w = random.symmetric();
  before[LinearRole::kV].bias.assign(8, 0.75f);
  std::fill_n(before[LinearRole::kUp].row(3).begin(), 8, 0.0f);
  FloatLayer after = before;
  absorb_mantissas(after, c);
  for (const LinearRole role : {LinearRole::kUp, LinearRole::kV})
    for (int64_t i = 0; i < after[role].n; ++i) {
      float a = 0;
      for (const float w : after[role].row(i)) a = std::max(a, std::fabs(w));
      if (a == 0) continue;
      const float scale = *num::weight_scale(after[role].row(i), num::ScaleRule::kCeil);
      EXPECT_EQ(scale, *num::weight_scale(before[role].row(i), num::ScaleRule::kCeil)) << "the power of two stays";
      EXPECT_NEAR(a / scale, 127.0f, 1e-4f);
    }
  const auto kept = [&](LinearRole first, LinearRole second, int64_t row, int64_t column) {
    for (int64_t i = 0; i < before[second].n; ++i) {
      const auto j = static_cast<size_t>(column);
      const float product = before[first].row(row)[0] * before[second].row(i)[j];
      EXPECT_NEAR(after[first].row(row)[0] * after[second].row(i)[j], product, 1e-6f);
    }
  };
  for (int64_t i = 0; i < c.intermediate; ++i) kept(LinearRole::kUp, LinearRole::kDown, i, i);
  for (int64_t i = 0; i < c.q_size(); ++i) kept(LinearRole::kV, LinearRole::kO, i / 4 / 2 * 4 + i % 4, i);
  EXPECT_NEAR(after[LinearRole::kV].bias[1] * after[LinearRole::kO].row(0)[1], 0.75f * before[LinearRole::kO].row(0)[1], 1e-6f);
}

TEST(Absorb, NeverStretchesBeyondThePower) {
  num::PhiloxStream random(6);
  for (int i = 0; i < 100000; ++i) {
    const float a = std::fabs(random.symmetric()) + 0x1p-20f, f = stretch(a);
    EXPECT_EQ(num::ceil_scale_exponent(f * a), num::ceil_scale_exponent(a));
    EXPECT_GE(f, 1.0f);
    EXPECT_LT(f, 2.02f);
  }
}

TEST(Smoothing, Log2IsCloseAndMonotone) {
  num::PhiloxStream random(5);
  for (int i = 0; i < 20000; ++i) {
    const float v = num::float_of((random.next() & 0x7FFFFFFF) % 0x7F000000u + 0x00800000u);
    EXPECT_NEAR(static_cast<double>(log2_q24(v)) * 0x1p-24, std::log2(static_cast<double>(v)), 0x1p-23);
  }
  EXPECT_EQ(log2_q24(1.0f), 0);
  EXPECT_EQ(log2_q24(0x1p-126f), -126 * (int64_t{1} << 24));
}

}  // namespace
}  // namespace zeroulp::quant
