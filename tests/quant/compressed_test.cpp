// Checkpoints of the compressed-tensors package: one that the package made (tests/golden/compressed_tensors) reads, keeps its codes and scales under
// w8a8-free, and comes back from an export.
#include "model/compressed_tensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/temporary_folder.h"
#include "model/compressed_export.h"
#include "model/tiny_folder.h"
#include "num/bits.h"
#include "quant/layer_weights.h"
#include "quant/quantize.h"
#include "source_dir.h"

namespace zeroulp::quant {
namespace {

namespace fs = std::filesystem;
using model::LinearRole;

fs::path golden() { return fs::path(source_dir()) / "tests/golden/compressed_tensors"; }

class Compressed : public testing::Test {
 protected:
  model::QuantizedModel quantized(const model::Checkpoint& checkpoint, const char* name, const char* profile, Outcome* made = nullptr) {
    Job j;
    j.out = folder_.path() / name;
    j.options = *profile_options(profile, "");
    j.options.gptq = j.options.absorb = false;
    j.options.smooth.reset();
    const auto outcome = quantize(checkpoint, j);
    EXPECT_TRUE(outcome) << outcome.error().text;
    if (made != nullptr) *made = *outcome;
    auto m = model::QuantizedModel::open(j.out);
    EXPECT_TRUE(m) << m.error().text;
    return *std::move(m);
  }
  // The golden folder with something changed.
  Result<model::Checkpoint> changed(const std::function<void(io::Json& quantization)>& change) {
    const fs::path at = folder_.path() / "changed";
    fs::remove_all(at);
    fs::copy(golden(), at);
    auto config = *io::read_json_file(at / "config.json");
    change(config["quantization_config"]);
    std::ofstream(at / "config.json") << config.dump();
    return model::Checkpoint::open(at);
  }
  TemporaryFolder folder_;
};

// Every code and scale of the package's file is that of the model; -128, which the contract lacks, is -127 and counted.
void expect_kept(const model::Checkpoint& from, const model::QuantizedModel& m, int64_t& saturated) {
  for (int64_t layer = 0; layer < m.config().layers; ++layer)
    for (int r = 0; r < model::kLinearsPerLayer; ++r) {
      const auto role = static_cast<LinearRole>(r);
      const auto integers = from.integers(weight_name(layer, role));
      ASSERT_TRUE(integers && *integers) << weight_name(layer, role);
      const model::QuantizedLinear& l = m.layers()[static_cast<size_t>(layer)][role];
      ASSERT_EQ(static_cast<int64_t>((*integers)->scales.size()), l.n);
      for (int64_t i = 0; i < l.n; ++i) ASSERT_EQ(l.scales[i], (*integers)->scales[static_cast<size_t>(i)]);
      for (int64_t i = 0; i < l.n * l.k; ++i) {
        const int8_t code = (*integers)->codes[i];
        saturated += code == -128;
        ASSERT_EQ(l.codes[i], code == -128 ? -127 : code);
      }
    }
}

TEST_F(Compressed, ThePackagesCheckpointKeepsItsCodesAndScales) {
  const auto checkpoint = model::Checkpoint::open(golden());
  ASSERT_TRUE(checkpoint) << checkpoint.error().text;
  EXPECT_TRUE(checkpoint->is_compressed());
  ASSERT_FALSE(checkpoint->notes().empty());
  EXPECT_NE(checkpoint->notes().back().find("int8 already"), std::string::npos) << "what is lost is said";
  Outcome outcome;
  const auto m = quantized(*checkpoint, "free", "w8a8-free", &outcome);
  int64_t saturated = 0;
  expect_kept(*checkpoint, m, saturated);
  EXPECT_GT(saturated, 0) << "the package's codes begin at -128; otherwise this test shows little";
  EXPECT_EQ(outcome.codes_saturated, saturated);
  EXPECT_EQ(m.header().profile, "w8a8-free");
}

TEST_F(Compressed, WeightsAreCodesTimesScales) {
  const auto checkpoint = model::Checkpoint::open(golden());
  ASSERT_TRUE(checkpoint);
  const std::string name = weight_name(1, LinearRole::kUp);
  const auto floats = checkpoint->floats(name);
  const auto integers = checkpoint->integers(name);
  ASSERT_TRUE(floats && integers && *integers);
  const auto k = static_cast<size_t>(checkpoint->find(name)->shape[1]);
  for (size_t i = 0; i < floats->size(); ++i) ASSERT_EQ((*floats)[i], static_cast<float>((*integers)->codes[i]) * (*integers)->scales[i / k]);
  EXPECT_FALSE(*checkpoint->integers("model.norm.weight"));
}

TEST_F(Compressed, APowerOfTwoProfileTakesTheWeightsAsTheyAre) {
  const auto checkpoint = model::Checkpoint::open(golden());
  const auto m = quantized(*checkpoint, "po2", "w8a8-po2");
  for (const model::QuantizedLayer& layer : m.layers())
    for (const model::QuantizedLinear& l : layer.linears)
      for (int64_t i = 0; i < l.n; ++i) ASSERT_TRUE(num::is_pow2(l.scales[i]));
}

TEST_F(Compressed, AnExportComesBackWithTheSameCodes) {
  const auto checkpoint = model::Checkpoint::open(golden());
  for (const char* profile : {"w8a8-free", "w8a8-po2"}) {
    const auto m = quantized(*checkpoint, profile, profile);
    const fs::path out = folder_.path() / (std::string(profile) + "-export");
    const auto made = model::export_compressed(m, folder_.path() / profile, out, false);
    ASSERT_TRUE(made) << made.error().text;
    EXPECT_FALSE(made->notes.empty());
    const auto again = model::Checkpoint::open(out);
    ASSERT_TRUE(again) << again.error().text;
    EXPECT_TRUE(again->is_compressed());
    EXPECT_FALSE(again->config().tied_head) << "the head keeps its codes";
    const auto back = quantized(*again, (std::string(profile) + "-back").c_str(), "w8a8-free");
    int64_t saturated = 0;
    expect_kept(*again, back, saturated);
    EXPECT_EQ(saturated, 0);
    for (int64_t layer = 0; layer < m.config().layers; ++layer)
      for (int r = 0; r < model::kLinearsPerLayer; ++r) {
        const auto &a = m.layers()[static_cast<size_t>(layer)].linears[r], &b = back.layers()[static_cast<size_t>(layer)].linears[r];
        EXPECT_EQ(std::memcmp(a.codes, b.codes, static_cast<size_t>(a.n * a.k)), 0);
        EXPECT_EQ(std::memcmp(a.scales, b.scales, static_cast<size_t>(a.n) * 4), 0);
      }
  }
}

TEST_F(Compressed, FifteenBitInputsCannotBeExported) {
  const auto m = quantized(*model::Checkpoint::open(golden()), "wide", "w8a15-free");
  const auto made = model::export_compressed(m, folder_.path() / "wide", folder_.path() / "x", false);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text.find("15 bits"), std::string::npos) << made.error().text;
  EXPECT_FALSE(fs::exists(folder_.path() / "x"));
}

TEST_F(Compressed, OtherSchemesAreRefusedByTheirKey) {
  const auto refused = [&](const std::function<void(io::Json&)>& change, std::string_view words) {
    const auto checkpoint = changed(change);
    ASSERT_FALSE(checkpoint) << words;
    EXPECT_EQ(checkpoint.error().code, ExitCode::kBadInput);
    EXPECT_NE(checkpoint.error().text.find(words), std::string::npos) << checkpoint.error().text;
    EXPECT_EQ(checkpoint.error().text.find('\n'), std::string::npos);
  };
  const auto group = [](io::Json& q) -> io::Json& { return q["config_groups"]["group_0"]; };
  EXPECT_TRUE(changed([](io::Json&) {}));
  refused([](io::Json& q) { q["quant_method"] = "gptq"; }, "quant_method");
  refused([](io::Json& q) { q["format"] = "pack-quantized"; }, "format");
  refused([](io::Json& q) { q["quantization_status"] = "frozen"; }, "quantization_status");
  refused([&](io::Json& q) { group(q)["weights"]["num_bits"] = 4; }, "num_bits");
  refused([&](io::Json& q) { group(q)["weights"]["strategy"] = "group"; }, "strategy");
  refused([&](io::Json& q) { group(q)["weights"]["symmetric"] = false; }, "symmetric");
  refused([&](io::Json& q) { group(q)["input_activations"]["dynamic"] = false; }, "static activation scales");
  refused([&](io::Json& q) { group(q)["input_activations"] = nullptr; }, "input_activations");
  refused([&](io::Json& q) { group(q)["targets"] = {"re:.*q_proj"}; }, "targets");
  refused([&](io::Json& q) { q["config_groups"]["group_1"] = group(q); }, "2 groups");
  refused([](io::Json& q) { q["ignore"] = {"re:.*head"}; }, "is a pattern");
  refused([](io::Json& q) { q["kv_cache_scheme"] = {{"num_bits", 8}}; }, "kv_cache_scheme");
  refused([](io::Json& q) { q["ignore"] = {"model.layers.0.mlp.up_proj"}; }, "up_proj");
  refused([](io::Json& q) { q = 7; }, "quantization_config");
}

}  // namespace
}  // namespace zeroulp::quant
