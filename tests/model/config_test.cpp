#include "model/config.h"

#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/rope.h"
#include "model/tiny_folder.h"
#include "source_dir.h"

namespace zeroulp::model {
namespace {

using io::Json;

Json with(Json json, const Json& change) {
  json.merge_patch(change);  // null removes a key
  return json;
}
Json with_null(Json json, const char* key) {
  json[key] = nullptr;
  return json;
}

ModelConfig parsed(const Json& json, const Json* generation = nullptr) {
  auto r = parse_config(json, generation, "c");
  EXPECT_TRUE(r.has_value()) << (r ? "" : r.error().text);
  return r ? *r : ModelConfig{};
}
std::string error_of(const Json& json, const Json* generation = nullptr) {
  auto r = parse_config(json, generation, "c");
  return r ? "" : r.error().text;
}
#define EXPECT_ERROR(json, part) EXPECT_NE(error_of(json).find(part), std::string::npos) << "gave: " << error_of(json)

TEST(Config, SizesAreRead) {
  const ModelConfig c = parsed(tiny_config());
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.hidden, 8);
  EXPECT_EQ(c.heads, 2);
  EXPECT_EQ(c.kv_heads, 1);
  EXPECT_EQ(c.head_dim, 4);
  EXPECT_EQ(c.rms_eps, 1e-5f);
  EXPECT_FALSE(c.tied_head);
  EXPECT_EQ(c.rope_frequencies.size(), 2u);
  EXPECT_EQ(c.window.size(), 2u);
}

TEST(Config, AbsentKvHeadsMeansAllHeads) {
  EXPECT_EQ(parsed(with(tiny_config(), {{"num_key_value_heads", nullptr}})).kv_heads, 2);
  EXPECT_EQ(parsed(with_null(tiny_config(), "num_key_value_heads")).kv_heads, 2);
}

TEST(Config, HeadDimMayDifferFromHiddenOverHeads) {
  const ModelConfig c = parsed(with(tiny_config("qwen3"), {{"head_dim", 8}}));
  EXPECT_EQ(c.q_size(), 16);
  EXPECT_EQ(c.kv_size(), 8);
  EXPECT_EQ(c.rope_frequencies.size(), 4u);
  EXPECT_EQ(parsed(with_null(tiny_config("qwen3"), "head_dim")).head_dim, 4) << "null: hidden / heads";
  EXPECT_EQ(parsed(tiny_config("qwen3")).head_dim, 128) << "absent: Qwen3's default";
}

TEST(Config, FamiliesDifferInBiasAndNorm) {
  EXPECT_FALSE(parsed(tiny_config("llama")).qkv_bias);
  EXPECT_TRUE(parsed(tiny_config("qwen2")).qkv_bias);
  EXPECT_FALSE(parsed(tiny_config("qwen2")).qk_norm);
  EXPECT_FALSE(parsed(tiny_config("qwen3")).qkv_bias);
  EXPECT_TRUE(parsed(tiny_config("qwen3")).qk_norm);
}

TEST(Config, StopTokensAreTheUnion) {
  const Json generation = {{"eos_token_id", {1, 6}}};
  EXPECT_EQ(parsed(with(tiny_config(), {{"eos_token_id", 3}}), &generation).stop_tokens, (std::vector<int32_t>{1, 3, 6}));
  const Json single = {{"eos_token_id", 1}};
  EXPECT_EQ(parsed(with(tiny_config(), {{"eos_token_id", {1, 6}}}), &single).stop_tokens, (std::vector<int32_t>{1, 6}));
  EXPECT_EQ(parsed(with_null(tiny_config(), "eos_token_id")).stop_tokens.size(), 0u);
  EXPECT_ERROR(with(tiny_config(), {{"eos_token_id", 16}}), "eos_token_id: 16");
  EXPECT_ERROR(with(tiny_config(), {{"eos_token_id", -1}}), "eos_token_id: -1");
  EXPECT_ERROR(with(tiny_config(), {{"eos_token_id", {1, "2"}}}), "eos_token_id: \"2\"");
  EXPECT_EQ(*parsed(with(tiny_config(), {{"bos_token_id", 5}})).bos_token, 5);
  EXPECT_ERROR(with(tiny_config(), {{"bos_token_id", 16}}), "bos_token_id: 16");
}

TEST(Config, BothRopeSpellingsGiveTheSame) {
  const Json rule = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
  const Json v4 = with(tiny_config(), {{"rope_theta", 5e5}, {"rope_scaling", with(rule, {{"rope_type", "llama3"}})}});
  const Json old = with(tiny_config(), {{"rope_theta", 5e5}, {"rope_scaling", with(rule, {{"type", "llama3"}})}});
  const Json v5 =
      with(tiny_config(), {{"rope_theta", nullptr}, {"rope_parameters", with(rule, {{"rope_type", "llama3"}, {"rope_theta", 5e5}})}});
  EXPECT_EQ(parsed(v4).rope_frequencies, parsed(v5).rope_frequencies);
  EXPECT_EQ(parsed(v4).rope_frequencies, parsed(old).rope_frequencies);
  EXPECT_NE(parsed(v4).rope_frequencies, parsed(with(tiny_config(), {{"rope_theta", 5e5}})).rope_frequencies);
}

TEST(Config, ThetaInsideRopeParametersIsUsed) {
  const Json v5 =
      with(tiny_config("qwen2"), {{"rope_theta", nullptr}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}}});
  EXPECT_EQ(parsed(v5).rope_frequencies, rope_frequencies(1e6, 4, RopeDefault{}));
  EXPECT_ERROR(with(tiny_config("qwen2"), {{"rope_theta", nullptr}}), "rope_theta: stands neither");
}

TEST(Config, Llama3BandsAreTheRightWayRound) {
  const auto plain = rope_frequencies(5e5, 128, RopeDefault{});
  const auto scaled = rope_frequencies(5e5, 128, RopeLlama3{8, 1, 4, 8192});
  EXPECT_EQ(plain[28], scaled[28]);
  EXPECT_NEAR(plain[30] / scaled[30], 1.5534, 1e-3) << "20.24 if the two ends of the middle band are swapped";
  EXPECT_EQ(plain[35] / 8, scaled[35]);
}

TEST(Config, WhatIsNotModelledIsRefusedByKey) {
  EXPECT_ERROR(with(tiny_config(), {{"model_type", "mistral"}}), "model_type: \"mistral\" is not supported");
  EXPECT_ERROR(with(tiny_config(), {{"model_type", nullptr}}), "model_type: is missing");
  EXPECT_ERROR(with(tiny_config(), {{"architectures", {"LlamaForSequenceClassification"}}}), "architectures");
  EXPECT_ERROR(with(tiny_config(), {{"attention_bias", true}}), "attention_bias");
  EXPECT_ERROR(with(tiny_config(), {{"mlp_bias", true}}), "mlp_bias");
  EXPECT_ERROR(with(tiny_config(), {{"hidden_act", "gelu"}}), "hidden_act: \"gelu\"");
  EXPECT_ERROR(with(tiny_config(), {{"hidden_act", nullptr}}), "hidden_act: is missing");
  EXPECT_ERROR(with(tiny_config(), {{"quantization_config", {{"bits", 4}}}}), "quantization_config");
  EXPECT_ERROR(with(tiny_config(), {{"partial_rotary_factor", 0.5}}), "partial_rotary_factor");
  EXPECT_ERROR(with(tiny_config(), {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}), "\"dynamic\" is not supported");
  EXPECT_ERROR(with(tiny_config(), {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}}), "per layer type");
  EXPECT_ERROR(with(tiny_config(), {{"rope_parameters", {{"rope_theta", 2e4}}}, {"rope_scaling", {{"type", "default"}}}}), "keep one");
}

TEST(Config, EveryRequiredKeyIsNamed) {
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                          "max_position_embeddings", "rms_norm_eps"}) {
    EXPECT_ERROR(with(tiny_config(), {{key, nullptr}}), std::string(key) + ": is missing");
    EXPECT_ERROR(with(tiny_config(), {{key, 0}}), std::string(key) + ": 0 is not");
    EXPECT_ERROR(with(tiny_config(), {{key, -1}}), std::string(key) + ": -1 is not");
    EXPECT_ERROR(with(tiny_config(), {{key, "8"}}), std::string(key) + ": \"8\" is not");
    EXPECT_ERROR(with(tiny_config(), {{key, 18446744073709551615u}}), std::string(key) + ": 18446744073709551615 is not");
  }
  EXPECT_ERROR(Json::array(), "not a JSON object");
}

TEST(Config, SizesThatDoNotFitTogetherAreRefused) {
  EXPECT_ERROR(with(tiny_config(), {{"num_key_value_heads", 3}}), "num_key_value_heads: 3 does not divide");
  EXPECT_ERROR(with(tiny_config(), {{"hidden_size", 9}}), "head_dim: is missing");
  EXPECT_ERROR(with(tiny_config(), {{"head_dim", 3}}), "head_dim: 3 is not an even");
  EXPECT_ERROR(with(tiny_config(), {{"head_dim", 4098}}), "head_dim: 4098");
  EXPECT_ERROR(with(tiny_config(), {{"num_attention_heads", 16777216}, {"num_key_value_heads", 1}, {"head_dim", 4096}}),
               "above the limit");
  EXPECT_ERROR(with(tiny_config(), {{"rope_theta", 1.0}}), "rope_theta: 1 is not above 1");
  EXPECT_ERROR(with(tiny_config(), {{"rms_norm_eps", 1e-60}}), "rms_norm_eps");
}

TEST(Config, WindowsFollowTheirKeys) {
  const Json qwen = with(tiny_config("qwen2"), {{"sliding_window", 4}, {"max_window_layers", 1}});
  EXPECT_EQ(parsed(qwen).window, (std::vector<std::optional<int64_t>>(2))) << "use_sliding_window is false by default";
  EXPECT_EQ(parsed(with(qwen, {{"use_sliding_window", true}})).window, (std::vector<std::optional<int64_t>>{std::nullopt, 4}));
  const Json listed = with(qwen, {{"use_sliding_window", true}, {"layer_types", {"sliding_attention", "full_attention"}}});
  EXPECT_EQ(parsed(listed).window, (std::vector<std::optional<int64_t>>{4, std::nullopt}));
  EXPECT_ERROR(with(listed, {{"use_sliding_window", false}}), "no window");
  EXPECT_ERROR(with(listed, {{"layer_types", {"full_attention"}}}), "not a list of 2");
  EXPECT_ERROR(with(listed, {{"layer_types", {"full_attention", "chunked_attention"}}}),
               "\"chunked_attention\" is not supported");
}

TEST(Config, RopeFrequenciesEqualHuggingFaceBitForBit) {
  auto golden = io::read_json_file(source_dir() + "/tests/golden/rope.json");
  ASSERT_TRUE(golden) << golden.error().text;
  ASSERT_GE((*golden)["cases"].size(), 20u);
  for (const Json& row : (*golden)["cases"]) {
    const ModelConfig c = parsed(row["config"]);
    std::istringstream words(row["frequencies"].get<std::string>());
    words >> std::hex;
    size_t i = 0;
    for (uint32_t want; words >> want; ++i) {
      ASSERT_LT(i, c.rope_frequencies.size());
      EXPECT_EQ(std::bit_cast<uint32_t>(c.rope_frequencies[i]), want) << row["case"] << " pair " << i;
    }
    EXPECT_EQ(i, c.rope_frequencies.size()) << row["case"];
    EXPECT_EQ(std::bit_cast<uint32_t>(c.rope_attention_factor),
              std::stoul(row["attention_factor"].get<std::string>(), nullptr, 16))
        << row["case"];
  }
}

}  // namespace
}  // namespace zeroulp::model
