#include "quant/quantize.h"

#include <gtest/gtest.h>

#include "io/temporary_folder.h"
#include "model/quantized_model.h"
#include "model/tiny_folder.h"
#include "num/philox.h"

namespace zeroulp::quant {
namespace {

namespace fs = std::filesystem;

std::string file_text(const fs::path& path) {
  auto text = read_text_file(path, 1 << 26);
  EXPECT_TRUE(text) << path;
  return text ? *text : std::string();
}

// A folder of every family with weights of order one, a zero channel, and tokenizer files to be kept.
class QuantizeTest : public testing::Test {
 protected:
  model::Checkpoint make(const char* family, bool tied = false) {
    io::Json config = model::tiny_config(family);
    config["tie_word_embeddings"] = tied;
    auto tensors = model::tiny_tensors(config);
    uint64_t stream = 0;
    for (auto& [name, t] : tensors) {
      num::PhiloxStream random(7, stream++);
      std::vector<float> values(t.bytes.size() / 2);
      for (float& v : values) v = name.find("norm") != std::string::npos ? 1 + random.symmetric() / 2 : random.symmetric();
      if (name == "model.layers.1.mlp.up_proj.weight") std::fill(values.begin() + 8, values.begin() + 16, 0.0f);
      t.bytes = model::float_bytes(values, Dtype::kBF16);
    }
    model::write_folder(source(), config, tensors);
    model::write_text(source() / "generation_config.json", "{}");
    auto checkpoint = model::Checkpoint::open(source());
    EXPECT_TRUE(checkpoint) << checkpoint.error().text;
    return *std::move(checkpoint);
  }
  fs::path source() const { return folder_.path() / "source"; }
  fs::path out(const char* name = "out") const { return folder_.path() / name; }
  Job job(const char* profile, const char* name = "out", int threads = 1) const {
    Job j;
    j.out = out(name);
    j.options = *profile_options(profile, "");
    j.options.gptq = j.options.absorb = false;
    j.options.smooth.reset();
    j.threads = threads;
    return j;
  }
  TemporaryFolder folder_;
};

TEST_F(QuantizeTest, WritesAModelThatOpensAndSaysWhatItIs) {
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    const auto checkpoint = make(family, std::string(family) == "qwen2");
    Job j = job("w8a15-free");
    j.force = true;
    const auto outcome = quantize(checkpoint, j);
    ASSERT_TRUE(outcome) << outcome.error().text;
    const auto m = model::QuantizedModel::open(j.out);
    ASSERT_TRUE(m) << m.error().text;
    EXPECT_TRUE(m->verify_identity());
    EXPECT_EQ(m->identity(), outcome->identity);
    EXPECT_EQ(m->header().profile, "w8a15-free");
    EXPECT_EQ((*m->header().recipe)["source_sha256"], source_identity(checkpoint));
    EXPECT_EQ(file_text(j.out / "config.json"), file_text(source() / "config.json"));
    EXPECT_EQ(file_text(j.out / "generation_config.json"), "{}");
    EXPECT_FALSE(fs::exists(folder_.path() / ".out.partial"));
  }
}

TEST_F(QuantizeTest, CodesTimesScalesAreWithinHalfAScaleOfTheWeights) {
  const auto checkpoint = make("llama");
  for (const char* profile : {"w8a15-free", "w8a15-po2"}) {
    ASSERT_TRUE(quantize(checkpoint, job(profile, profile)));
    const auto m = model::QuantizedModel::open(out(profile));
    ASSERT_TRUE(m) << m.error().text;
    const auto weights = checkpoint.floats("model.layers.1.mlp.up_proj.weight");
    const auto& l = m->layers()[1][model::LinearRole::kUp];
    for (int64_t i = 0; i < l.n * l.k; ++i) {
      const float scale = l.scales[i / l.k];
      EXPECT_LE(std::fabs(static_cast<float>(l.codes[i]) * scale - (*weights)[static_cast<size_t>(i)]), 0.5f * scale);
      if (profile == std::string("w8a15-po2")) {
        EXPECT_TRUE(num::is_pow2(scale));
      }
    }
    EXPECT_EQ(l.scales[1], 1.0f) << "the zero channel";
    for (int64_t i = 0; i < l.k; ++i) EXPECT_EQ(l.codes[l.k + i], 0);
  }
}

TEST_F(QuantizeTest, BothPowersOfTwoStandInTheHeaderAndInTheIdentity) {
  const auto checkpoint = make("llama");
  ASSERT_TRUE(quantize(checkpoint, job("both-po2", "both")));
  ASSERT_TRUE(quantize(checkpoint, job("w8a8-po2", "weights")));
  const auto both = model::QuantizedModel::open(out("both")), weights = model::QuantizedModel::open(out("weights"));
  ASSERT_TRUE(both && weights);
  EXPECT_TRUE(both->layers()[0][model::LinearRole::kQ].rows.pow2_scale && both->head().rows.pow2_scale);
  EXPECT_FALSE(weights->head().rows.pow2_scale);
  EXPECT_NE(both->identity(), weights->identity());
  EXPECT_EQ(file_text(out("both") / "model.safetensors"), file_text(out("weights") / "model.safetensors"));
  std::string header = file_text(out("both") / "zeroulp.json");
  const size_t at = header.rfind("\"row_scales\"");
  ASSERT_NE(at, std::string::npos);
  header.replace(header.find("power of two", at), 12, "nearest");
  model::write_text(out("both") / "zeroulp.json", header);
  const auto refused = model::QuantizedModel::open(out("both"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kBadInput);
  EXPECT_NE(refused.error().text.find("row_scales"), std::string::npos) << refused.error().text;
}

TEST_F(QuantizeTest, ThreadsMoveNoByte) {
  const auto checkpoint = make("qwen2");
  ASSERT_TRUE(quantize(checkpoint, job("w8a8-po2", "one", 1)));
  ASSERT_TRUE(quantize(checkpoint, job("w8a8-po2", "three", 3)));
  for (const char* file : {"zeroulp.json", "model.safetensors"}) EXPECT_EQ(file_text(out("one") / file), file_text(out("three") / file));
}

TEST_F(QuantizeTest, RefusesToOverwrite) {
  const auto checkpoint = make("llama");
  fs::create_directory(out());
  const auto refused = quantize(checkpoint, job("w8a15-free"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kBadInput);
  Job j = job("w8a15-free");
  j.force = true;
  EXPECT_TRUE(quantize(checkpoint, j));
}

TEST_F(QuantizeTest, ResumesWhereItWasAndGivesTheSameBytes) {
  const auto checkpoint = make("llama");
  ASSERT_TRUE(quantize(checkpoint, job("w8a15-free", "fresh")));
  // Ends a run before its second layer, as a kill would: from inside a callback, by an exception that nothing catches in between.
  Job j = job("w8a15-free");
  j.progress = [](std::string_view stage, int64_t done, int64_t) {
    if (stage == "quantising" && done == 1) throw std::runtime_error("killed");
  };
  EXPECT_THROW((void)quantize(checkpoint, j), std::runtime_error);
  j.progress = nullptr;
  EXPECT_FALSE(quantize(checkpoint, j)) << "an interrupted conversion is not thrown away unasked";
  j.resume = true;
  Job other = j;
  other.options.key_width = 8;
  EXPECT_FALSE(quantize(checkpoint, other)) << "the partial folder belongs to other options";
  const auto outcome = quantize(checkpoint, j);
  ASSERT_TRUE(outcome) << outcome.error().text;
  EXPECT_EQ(outcome->layers_resumed, 1);
  for (const char* file : {"zeroulp.json", "model.safetensors"}) EXPECT_EQ(file_text(out() / file), file_text(out("fresh") / file));
}

TEST_F(QuantizeTest, APartThatChangedOnTheDiskIsNotBelieved) {
  const auto checkpoint = make("llama");
  Job j = job("w8a15-free");
  j.progress = [](std::string_view stage, int64_t done, int64_t) {
    if (stage == "quantising" && done == 1) throw std::runtime_error("killed");
  };
  EXPECT_THROW((void)quantize(checkpoint, j), std::runtime_error);
  const fs::path part = folder_.path() / ".out.partial/layer-00000.safetensors";
  std::string bytes = file_text(part);
  bytes[bytes.size() - 9] ^= 1;
  model::write_text(part, bytes);
  j.progress = nullptr;
  j.resume = true;
  const auto outcome = quantize(checkpoint, j);
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().text.find("is not what was written; add --force"), std::string::npos) << outcome.error().text;
}

TEST_F(QuantizeTest, TwoConversionsDoNotWriteOneFolder) {
  const auto checkpoint = make("llama");
  Job first = job("w8a15-free"), second = job("w8a8-po2");
  second.force = true;
  std::string said;
  first.progress = [&](std::string_view stage, int64_t done, int64_t) {
    if (stage != "quantising" || done != 1) return;
    const auto outcome = quantize(checkpoint, second);
    said = outcome ? "both wrote" : outcome.error().text;
  };
  const auto outcome = quantize(checkpoint, first);
  ASSERT_TRUE(outcome) << outcome.error().text;
  EXPECT_NE(said.find("another conversion is writing it"), std::string::npos) << said;
  EXPECT_EQ(model::QuantizedModel::open(out())->header().profile, "w8a15-free");
  second.out = out();
  EXPECT_TRUE(quantize(checkpoint, second)) << "the lock ends with its holder";
}

TEST_F(QuantizeTest, WhatCouldNotBeOpenedIsNotBegun) {
  io::Json config = model::tiny_config("llama");
  config["max_position_embeddings"] = int64_t{1} << 30;
  model::write_folder(source(), config, model::tiny_tensors(config));
  const auto checkpoint = model::Checkpoint::open(source());
  ASSERT_TRUE(checkpoint) << checkpoint.error().text;
  const auto outcome = quantize(*checkpoint, job("w8a15-free"));
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().text.find("max_positions"), std::string::npos) << outcome.error().text;
  EXPECT_FALSE(fs::exists(out()));
}

// Tokens for the sixteen of the tiny vocabulary.
Calibration calibration() {
  Calibration c;
  num::PhiloxStream random(3);
  for (int i = 0; i < 90; ++i) c.tokens.push_back(static_cast<int32_t>(random.below(16)));
  c.window = 24;
  c.text_sha256 = "of nothing";
  return c;
}

Job calibrated(Job j) {
  j.options.gptq = true;
  j.options.smooth = kDefaultAlpha;
  j.options.key_width = 8;
  j.options.widths["down_proj"] = 15;
  j.options.widths["k_proj"] = 15;  // beside q and v of another width
  j.calibration = calibration();
  return j;
}

TEST_F(QuantizeTest, CalibratedThreadsMoveNoByteAndAnInterruptionNeither) {
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    const auto checkpoint = make(family);
    Job fresh = calibrated(job("w8a8-po2", "fresh", 1)), other = calibrated(job("w8a8-po2", "other", 3));
    fresh.force = other.force = true;
    const auto outcome = quantize(checkpoint, fresh);
    ASSERT_TRUE(outcome) << outcome.error().text;
    other.progress = [](std::string_view stage, int64_t done, int64_t) {
      if (stage == "calibrating" && done == 1) throw std::runtime_error("killed");
    };
    EXPECT_THROW((void)quantize(checkpoint, other), std::runtime_error);
    other.progress = nullptr;
    other.resume = true;
    const auto resumed = quantize(checkpoint, other);
    ASSERT_TRUE(resumed) << resumed.error().text;
    EXPECT_EQ(resumed->layers_resumed, 1);
    for (const char* file : {"zeroulp.json", "model.safetensors"}) EXPECT_EQ(file_text(fresh.out / file), file_text(other.out / file));
    const auto m = model::QuantizedModel::open(fresh.out);
    ASSERT_TRUE(m) << m.error().text;
    EXPECT_EQ((*m->header().recipe)["options"]["rounding"], "gptq");
    EXPECT_EQ((*m->header().recipe)["calibration"]["tokens"], 90);
  }
}

TEST_F(QuantizeTest, GptqAndSmoothingMoveCodes) {
  const auto checkpoint = make("llama");
  std::vector<std::string> seen;
  for (const bool gptq : {false, true})
    for (const bool smooth : {false, true}) {
      Job j = job("w8a8-po2");
      j.force = true;
      j.options.gptq = gptq;
      if (smooth) j.options.smooth = 0.5;
      if (gptq || smooth) j.calibration = calibration();
      const auto outcome = quantize(checkpoint, j);
      ASSERT_TRUE(outcome) << outcome.error().text;
      EXPECT_EQ(std::count(seen.begin(), seen.end(), outcome->identity), 0);
      seen.push_back(outcome->identity);
    }
}

TEST_F(QuantizeTest, BudgetNarrowsAsFarAsMeasured) {
  const auto checkpoint = make("qwen2");
  const auto narrowed = [&](double budget, double& kl, double& wide_kl) {
    Job j = job("w8a15-free");
    j.force = true;
    j.options.budget = budget;
    j.calibration = calibration();
    j.calibration.held_out = 24;
    const auto outcome = quantize(checkpoint, j);
    EXPECT_TRUE(outcome) << outcome.error().text;
    const auto m = model::QuantizedModel::open(j.out);
    EXPECT_TRUE(m) << m.error().text;
    kl = (*m->header().recipe)["width_choice"]["kl"].get<double>();
    wide_kl = (*m->header().recipe)["width_choice"]["kl_all_15"].get<double>();
    const auto& widths = m->header().linear_widths;
    return std::count_if(widths.begin(), widths.end(), [](const auto& w) { return w.second == 8; });
  };
  double all_kl, some_kl, wide_kl;
  EXPECT_EQ(narrowed(10, all_kl, wide_kl), 15) << "nothing exceeds this budget";
  ASSERT_GT(all_kl, wide_kl);
  const double between = (all_kl + wide_kl) / 2;
  const auto some = narrowed(between, some_kl, wide_kl);
  EXPECT_LE(some_kl, between);
  EXPECT_GT(some, 0);
  EXPECT_LT(some, 15);
}

TEST_F(QuantizeTest, AsksForTextWhereItNeedsIt) {
  const auto checkpoint = make("llama");
  Job j = job("w8a15-po2");
  j.options.gptq = true;
  const auto refused = quantize(checkpoint, j);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kUsage);
}

TEST(Options, WidthsGoFromGeneralToParticular) {
  model::ModelConfig config;
  config.layers = 2;
  Options o = *profile_options("w8a15-free", "");
  ASSERT_TRUE(set_width(o, config, "q_proj=8"));
  ASSERT_TRUE(set_width(o, config, "layers.1.q_proj=15"));
  ASSERT_TRUE(set_width(o, config, "head=8"));
  const auto widths = linear_widths(o, config);
  EXPECT_EQ(widths.size(), 15u);
  EXPECT_EQ(widths.at("layers.0.q_proj"), 8);
  EXPECT_EQ(widths.at("layers.1.q_proj"), 15);
  EXPECT_EQ(widths.at("layers.0.k_proj"), 15);
  EXPECT_EQ(widths.at("head"), 8);
}

TEST(Options, RefusesWhatDoesNotExist) {
  model::ModelConfig config;
  config.layers = 2;
  Options o = *profile_options("w8a15-free", "");
  for (const char* bad : {"q_proj", "q_proj=9", "q_proj=", "x_proj=8", "layers.2.q_proj=8", "layers.-1.q_proj=8", "layers.01.q_proj=8",
                          "layers..q_proj=8", "layers.0.head=8", "=8", ""}) {
    const Status status = set_width(o, config, bad);
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().code, ExitCode::kUsage);
  }
  EXPECT_FALSE(profile_options("w4a16", ""));
  EXPECT_FALSE(profile_options("w8a15-po2", "floor"));
  EXPECT_FALSE(profile_options("w8a15-free", "ceil")) << "a rule for exponents without exponents";
}

}  // namespace
}  // namespace zeroulp::quant
