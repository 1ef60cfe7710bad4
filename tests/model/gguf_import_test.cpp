#include "model/gguf_import.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "io/gguf_builder.h"
#include "io/json.h"
#include "io/temporary_folder.h"
#include "model/checkpoint.h"
#include "model/tensor_names.h"
#include "num/bf16.h"

namespace zeroulp::model {
namespace {

using io::GgufBuilder;
using io::Json;
namespace fs = std::filesystem;

// Sizes of the tiny file: hidden 8, 2 heads of 4, 2 KV heads, intermediate 12, one layer, 8 rows.
constexpr int kHidden = 8, kIntermediate = 12, kRows = 8;

// Tokens 0..5 are letters and a merge, 6 a control token, 7 a user-defined one.
GgufBuilder tiny(const std::string& arch) {
  GgufBuilder b;
  b.text("general.architecture", arch).u32(arch + ".context_length", 64).u32(arch + ".embedding_length", kHidden);
  b.u32(arch + ".feed_forward_length", kIntermediate).u32(arch + ".block_count", 1).u32(arch + ".attention.head_count", 2);
  b.u32(arch + ".attention.head_count_kv", 2).f32(arch + ".rope.freq_base", 10000.0f);
  b.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  b.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  b.texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "abc", "d", "<end>", "<think>"});
  b.i32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 3, 4}).texts("tokenizer.ggml.merges", {"a b", "ab c"});
  b.u32("tokenizer.ggml.eos_token_id", 6).text("tokenizer.chat_template", "{{ messages }}");
  return b;
}

std::vector<float> counting(size_t n, float first) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = first + static_cast<float>(i) / 8;
  return out;
}

GgufBuilder& add_tensors(GgufBuilder& b, const std::string& arch, bool head = false, const std::string& skip = "") {
  const auto add = [&](const std::string& name, std::vector<uint64_t> dims) {
    size_t n = 1;
    for (const uint64_t d : dims) n *= d;
    if (name != skip) b.f32_tensor(name, dims, counting(n, 1));
  };
  add("token_embd.weight", {kHidden, kRows});
  for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output"})
    add(std::string("blk.0.") + part + ".weight", {kHidden, kHidden});
  if (arch == "qwen2")
    for (const char* part : {"attn_q", "attn_k", "attn_v"}) add(std::string("blk.0.") + part + ".bias", {kHidden});
  if (arch == "qwen3")
    for (const char* part : {"attn_q_norm", "attn_k_norm"}) add(std::string("blk.0.") + part + ".weight", {4});
  for (const char* part : {"ffn_gate", "ffn_up"}) add(std::string("blk.0.") + part + ".weight", {kHidden, kIntermediate});
  add("blk.0.ffn_down.weight", {kIntermediate, kHidden});
  for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"}) add(name, {kHidden});
  if (head) add("output.weight", {kHidden, kRows});
  return b;
}

class GgufImportTest : public ::testing::Test {
 protected:
  fs::path file() const { return folder_.path() / "m.gguf"; }
  fs::path out() const { return folder_.path() / "out"; }
  Result<GgufImportReport> import_file(const GgufBuilder& b, const std::string& pre = "") {
    std::ofstream(file(), std::ios::binary) << b.build();
    return import_gguf(file(), out(), {.pre = pre, .force = true});
  }
  std::string error_of(const GgufBuilder& b, const std::string& pre = "") {
    fs::remove_all(out());
    auto r = import_file(b, pre);
    if (r) return "";
    EXPECT_EQ(r.error().code, ExitCode::kBadInput);
    EXPECT_EQ(r.error().text.find('\n'), std::string::npos);
    EXPECT_FALSE(fs::exists(out())) << "a refused file leaves no folder";
    return r.error().text;
  }
  Json json(const char* name) {
    auto r = io::read_json_file(out() / name);
    EXPECT_TRUE(r.has_value()) << (r ? "" : r.error().text);
    return r ? *r : Json();
  }
  TemporaryFolder folder_;
};
#define EXPECT_ERROR(builder, part) EXPECT_NE(error_of(builder).find(part), std::string::npos) << "gave: " << error_of(builder)

TEST_F(GgufImportTest, EveryArchitectureOpensAsACheckpoint) {
  for (const char* arch : {"llama", "qwen2", "qwen3"}) {
    GgufBuilder b = tiny(arch);
    auto r = import_file(add_tensors(b, arch));
    ASSERT_TRUE(r) << r.error().text;
    auto c = Checkpoint::open(out());
    ASSERT_TRUE(c) << c.error().text;
    EXPECT_EQ(c->config().architecture, arch);
    EXPECT_TRUE(c->config().tied_head) << "tied because output.weight is absent";
    EXPECT_EQ(c->config().rms_eps, 1e-5f);
    EXPECT_EQ(c->config().stop_tokens, (std::vector<int32_t>{6}));
    EXPECT_EQ(c->find(kEmbeddingName)->dtype, Dtype::kBF16);
    EXPECT_EQ(json("config.json")["rms_norm_eps"].dump(), "1e-05") << "the shortest decimal of the F32";
    EXPECT_EQ(json("tokenizer_config.json")["chat_template"], "{{ messages }}");
  }
}

TEST_F(GgufImportTest, AStoredHeadMakesTheModelUntied) {
  GgufBuilder b = tiny("qwen2");
  ASSERT_TRUE(import_file(add_tensors(b, "qwen2", true)));
  auto c = Checkpoint::open(out());
  ASSERT_TRUE(c) << c.error().text;
  EXPECT_FALSE(c->config().tied_head);
  EXPECT_TRUE(c->has(kHeadName));
}

TEST_F(GgufImportTest, LlamaQueryAndKeyRowsAreUnpermuted) {
  ModelConfig config;
  config.architecture = "llama";
  config.heads = config.kv_heads = 2;
  config.head_dim = 4;
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < 8; ++row) rows.push_back(gguf_source_row(config, "model.layers.0.self_attn.k_proj.weight", row));
  EXPECT_EQ(rows, (std::vector<int64_t>{0, 2, 1, 3, 4, 6, 5, 7}));
  for (const char* arch : {"llama", "qwen2", "qwen3"}) {
    GgufBuilder b = tiny(arch);
    ASSERT_TRUE(import_file(add_tensors(b, arch)));
    auto c = Checkpoint::open(out());
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
      const auto values = *c->floats(layer_tensor_name(0, std::string("self_attn.") + part + ".weight"));
      const bool moved = std::string(arch) == "llama" && std::string(part) != "v_proj";
      EXPECT_EQ(values[kHidden], counting(64, 1)[moved ? 2 * kHidden : kHidden]) << arch << ' ' << part;
      EXPECT_EQ(values[2 * kHidden], counting(64, 1)[moved ? kHidden : 2 * kHidden]) << arch << ' ' << part;
    }
  }
}

TEST_F(GgufImportTest, ValuesAreRoundedOnceToNearestEven) {
  GgufBuilder b = tiny("llama");
  add_tensors(b, "llama", false, "output_norm.weight");
  b.f32_tensor("output_norm.weight", {kHidden}, {1.00390625f, 1.01171875f, -0.0f, 1e-40f, 3.3e38f, 1.00390637f, -1.0f, 0.1f});
  ASSERT_TRUE(import_file(b));
  EXPECT_EQ(*Checkpoint::open(out())->bf16(kFinalNormName),
            (std::vector<uint16_t>{0x3F80, 0x3F82, 0x8000, 0x0001, 0x7F78, 0x3F81, 0xBF80, 0x3DCD}));
}

TEST_F(GgufImportTest, ScalesThatAreNotFiniteNameTheTensor) {
  for (const uint16_t scale : {0x7C00, 0xFC00, 0x7E00}) {
    GgufBuilder b = tiny("llama");
    b.without("llama.embedding_length").u32("llama.embedding_length", 32).u32("llama.attention.key_length", 4);
    std::string block(34, '\1');
    std::memcpy(block.data(), &scale, 2);
    b.tensor("token_embd.weight", {32, 8}, 8, std::string(7 * 34, '\1') + block);
    for (const char* part : {"attn_q", "attn_k", "attn_v"})
      b.f32_tensor(std::string("blk.0.") + part + ".weight", {32, 8}, counting(256, 1));
    b.f32_tensor("blk.0.attn_output.weight", {8, 32}, counting(256, 1));
    for (const char* part : {"ffn_gate", "ffn_up"})
      b.f32_tensor(std::string("blk.0.") + part + ".weight", {32, 12}, counting(384, 1));
    b.f32_tensor("blk.0.ffn_down.weight", {12, 32}, counting(384, 1));
    for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"})
      b.f32_tensor(name, {32}, counting(32, 1));
    EXPECT_ERROR(b, "tensor \"token_embd.weight\" (Q8_0) holds");
    EXPECT_ERROR(b, "at row 7, column 0");
  }
  GgufBuilder b = tiny("llama");
  add_tensors(b, "llama", false, "output_norm.weight");
  b.f32_tensor("output_norm.weight", {kHidden}, std::vector<float>(kHidden, 3.4e38f));
  EXPECT_ERROR(b, "\"output_norm.weight\" (F32) holds 3.4e+38 at row 0") << "infinite once rounded";
}

TEST_F(GgufImportTest, TensorsThatDoNotFitAreNamed) {
  GgufBuilder missing = tiny("llama");
  EXPECT_ERROR(add_tensors(missing, "llama", false, "blk.0.ffn_up.weight"), "the tensor blk.0.ffn_up.weight is missing");
  GgufBuilder extra = tiny("llama");
  add_tensors(extra, "llama").f32_tensor("blk.0.attn_q.bias", {kHidden}, counting(8, 1));
  EXPECT_ERROR(extra, "tensor \"blk.0.attn_q.bias\" is not part of this architecture");
  GgufBuilder shape = tiny("llama");
  add_tensors(shape, "llama", false, "output_norm.weight").f32_tensor("output_norm.weight", {4}, counting(4, 1));
  EXPECT_ERROR(shape, "tensor output_norm.weight is [4] and should be [8]");
  GgufBuilder embedding = tiny("llama");
  EXPECT_ERROR(add_tensors(embedding, "llama", false, "token_embd.weight"), "token_embd.weight: is missing or not a matrix");
}

TEST_F(GgufImportTest, KeysThatAreMissingOrNotModelledAreNamed) {
  const auto changed = [](const std::string& without, const std::function<void(GgufBuilder&)>& with = {}) {
    GgufBuilder b = tiny("llama");
    if (!without.empty()) b.without(without);
    if (with) with(b);
    return add_tensors(b, "llama");
  };
  for (const char* key : {"general.architecture", "llama.context_length", "llama.embedding_length", "llama.feed_forward_length",
                          "llama.block_count", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"})
    EXPECT_ERROR(changed(key), std::string(key) + ": is missing");
  EXPECT_ERROR(changed("general.architecture", [](auto& b) { b.text("general.architecture", "gemma"); }),
               "\"gemma\" is not supported");
  EXPECT_ERROR(changed("", [](auto& b) { b.f32("llama.attn_logit_softcapping", 30.0f); }),
               "attn_logit_softcapping: is not supported");
  EXPECT_ERROR(changed("", [](auto& b) { b.u32("llama.expert_count", 8); }), "expert_count: is not supported");
  EXPECT_EQ(error_of(changed("", [](auto& b) { b.u32("llama.expert_count", 0); })), "");
  EXPECT_ERROR(changed("", [](auto& b) { b.u32("llama.rope.dimension_count", 2); }),
               "rope.dimension_count: 2 differs from the head size 4");
  EXPECT_ERROR(changed("", [](auto& b) { b.u32("llama.attention.value_length", 8); }), "value_length: 8 differs");
  EXPECT_ERROR(changed("llama.attention.head_count_kv",
                       [](auto& b) {
                         b.i32s("llama.attention.head_count_kv", {2, 1});
                       }),
               "differs between layers");
  EXPECT_EQ(error_of(changed("llama.attention.head_count_kv",
                             [](auto& b) {
                               b.i32s("llama.attention.head_count_kv", {2, 2});
                             })),
            "");
  EXPECT_ERROR(changed("llama.attention.head_count", [](auto& b) { b.u32("llama.attention.head_count", 0); }),
               "head_count: is 0");
  EXPECT_ERROR(changed("llama.block_count", [](auto& b) { b.u32("llama.block_count", 0xFFFFFFFF); }),
               "num_hidden_layers: 4294967295");
  EXPECT_ERROR(changed("", [](auto& b) { b.text("llama.rope.scaling.type", "longrope").f32("llama.rope.scaling.factor", 2); }),
               "\"longrope\" is not supported");
}

TEST_F(GgufImportTest, RopeScalingReachesTheConfiguration) {
  GgufBuilder yarn = tiny("qwen2");
  yarn.text("qwen2.rope.scaling.type", "yarn")
      .f32("qwen2.rope.scaling.factor", 4.0f)
      .u32("qwen2.rope.scaling.original_context_length", 16);
  ASSERT_TRUE(import_file(add_tensors(yarn, "qwen2")));
  EXPECT_EQ(json("config.json")["rope_scaling"],
            (Json{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}}));
  GgufBuilder linear = tiny("llama");
  linear.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2.5f);
  ASSERT_TRUE(import_file(add_tensors(linear, "llama")));
  EXPECT_EQ(json("config.json")["rope_scaling"], (Json{{"rope_type", "linear"}, {"factor", 2.5}}));
}

TEST_F(GgufImportTest, Llama3DivisorsAreTurnedBackIntoTheirRule) {
  const auto with_divisors = [](const std::vector<float>& divisors) {
    GgufBuilder b = tiny("llama");
    b.without("llama.rope.freq_base").f32("llama.rope.freq_base", 500000.0f).u32("llama.attention.key_length", 64);
    b.without("llama.attention.head_count").u32("llama.attention.head_count", 1).without("llama.attention.head_count_kv");
    for (const char* part : {"attn_q", "attn_k", "attn_v"})
      b.f32_tensor(std::string("blk.0.") + part + ".weight", {8, 64}, counting(512, 1));
    b.f32_tensor("blk.0.attn_output.weight", {64, 8}, counting(512, 1))
        .f32_tensor("token_embd.weight", {8, 8}, counting(64, 1));
    for (const char* part : {"ffn_gate", "ffn_up"})
      b.f32_tensor(std::string("blk.0.") + part + ".weight", {8, 12}, counting(96, 1));
    b.f32_tensor("blk.0.ffn_down.weight", {12, 8}, counting(96, 1))
        .f32_tensor("rope_freqs.weight", {divisors.size()}, divisors);
    for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"})
      b.f32_tensor(name, {8}, counting(8, 1));
    return b;
  };
  // As the converter makes them: wavelengths from fp32 frequencies.
  std::vector<float> divisors;
  for (int i = 0; i < 32; ++i) {
    const double wavelength =
        2 * std::numbers::pi / static_cast<double>(1.0f / std::pow(500000.0f, static_cast<float>(2 * i) / 64.0f));
    const double smooth = (8192 / wavelength - 1) / 3;
    divisors.push_back(wavelength < 2048   ? 1.0f
                       : wavelength > 8192 ? 32.0f
                                           : static_cast<float>(1 / ((1 - smooth) / 32 + smooth)));
  }
  ASSERT_TRUE(import_file(with_divisors(divisors)));
  EXPECT_EQ(json("config.json")["rope_scaling"], (Json{{"rope_type", "llama3"},
                                                       {"factor", 32.0},
                                                       {"low_freq_factor", 1.0},
                                                       {"high_freq_factor", 4.0},
                                                       {"original_max_position_embeddings", 8192}}));
  ASSERT_TRUE(import_file(with_divisors(std::vector<float>(32, 1.0f))));
  EXPECT_FALSE(json("config.json").contains("rope_scaling"));
  divisors[20] *= 1.01f;
  EXPECT_ERROR(with_divisors(divisors), "follow no llama3 rule");
  EXPECT_ERROR(with_divisors(std::vector<float>(31, 1.0f)), "is not F32 with 32 elements");
}

TEST_F(GgufImportTest, ThePreTokeniserMustBeStated) {
  GgufBuilder b = tiny("llama");
  b.without("tokenizer.ggml.pre");
  add_tensors(b, "llama");
  EXPECT_ERROR(b, "tokenizer.ggml.pre: does not say how text is split before BPE; give --pre NAME");
  EXPECT_EQ(error_of(b, "smollm"), "");
  EXPECT_EQ(json("tokenizer.json")["pre_tokenizer"]["pretokenizers"][0]["type"], "Digits");
  b.text("tokenizer.ggml.pre", "default");
  EXPECT_ERROR(b, "give --pre NAME");
  b.without("tokenizer.ggml.pre").text("tokenizer.ggml.pre", "falcon");
  EXPECT_ERROR(b, "\"falcon\" is not supported");
}

TEST_F(GgufImportTest, EachPreTokeniserHasItsPipeline) {
  const auto tokenizer = [&](const char* pre) {
    GgufBuilder b = tiny("llama");
    b.without("tokenizer.ggml.pre").text("tokenizer.ggml.pre", pre).u32("tokenizer.ggml.bos_token_id", 6);
    EXPECT_EQ(error_of(add_tensors(b, "llama")), "");
    return json("tokenizer.json");
  };
  EXPECT_EQ(tokenizer("gpt-2")["pre_tokenizer"]["use_regex"], true);
  const Json llama = tokenizer("llama-bpe");
  EXPECT_EQ(llama["model"]["ignore_merges"], true);
  EXPECT_NE(llama["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].get<std::string>().find("\\p{N}{1,3}"),
            std::string::npos);
  EXPECT_EQ(llama["post_processor"]["single"][0]["SpecialToken"]["id"], "<end>") << "Llama 3 begins a text with its BOS";
  const Json qwen = tokenizer("qwen2");
  EXPECT_EQ(qwen["normalizer"]["type"], "NFC");
  EXPECT_EQ(qwen["model"]["ignore_merges"], false);
  EXPECT_EQ(qwen["post_processor"], nullptr);
}

TEST_F(GgufImportTest, UserDefinedTokensStayWholeAndVisible) {
  GgufBuilder b = tiny("llama");
  ASSERT_TRUE(import_file(add_tensors(b, "llama")));
  const Json t = json("tokenizer.json");
  ASSERT_EQ(t["added_tokens"].size(), 2u);
  EXPECT_EQ(t["added_tokens"][0]["content"], "<end>");
  EXPECT_EQ(t["added_tokens"][0]["special"], true);
  EXPECT_EQ(t["added_tokens"][1]["content"], "<think>");
  EXPECT_EQ(t["added_tokens"][1]["id"], 7);
  EXPECT_EQ(t["added_tokens"][1]["special"], false);
  EXPECT_EQ(t["model"]["vocab"].size(), 6u) << "they follow the vocabulary without a gap";
  EXPECT_EQ(t["model"]["merges"].dump(), R"([["a","b"],["ab","c"]])");
}

TEST_F(GgufImportTest, AddedTokensBehindAGapKeepTheirIds) {
  GgufBuilder b = tiny("llama");
  b.without("tokenizer.ggml.token_type").i32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 5, 3, 4});
  ASSERT_TRUE(import_file(add_tensors(b, "llama")));
  const Json t = json("tokenizer.json");
  EXPECT_EQ(t["model"]["vocab"]["<end>"], 6) << "outside the vocabulary it would get the next free id, 5";
  EXPECT_EQ(t["model"]["vocab"]["<think>"], 7);
  EXPECT_FALSE(t["model"]["vocab"].contains("d")) << "an unused token";
}

TEST_F(GgufImportTest, BrokenVocabulariesAreNamed) {
  const auto changed = [](const std::string& key, const std::function<void(GgufBuilder&)>& with) {
    GgufBuilder b = tiny("llama");
    with(b.without(key));
    return add_tensors(b, "llama");
  };
  EXPECT_ERROR(changed("tokenizer.ggml.model", [](auto& b) { b.text("tokenizer.ggml.model", "llama"); }),
               "\"llama\" is not supported; gpt2");
  EXPECT_ERROR(changed("tokenizer.ggml.tokens", [](auto&) {}), "tokenizer.ggml.tokens: is missing");
  EXPECT_ERROR(changed("tokenizer.ggml.token_type", [](auto&) {}), "token_type: is missing");
  EXPECT_ERROR(changed("tokenizer.ggml.token_type", [](auto& b) { b.i32s("tokenizer.ggml.token_type", {1}); }),
               "not an array of 8");
  EXPECT_ERROR(changed("tokenizer.ggml.token_type",
                       [](auto& b) {
                         b.i32s("tokenizer.ggml.token_type", {6, 1, 1, 1, 1, 1, 1, 1});
                       }),
               "type 6 of token 0");
  EXPECT_ERROR(changed("tokenizer.ggml.merges", [](auto& b) { b.texts("tokenizer.ggml.merges", {"a d"}); }),
               "merge 0 needs the token \"ad\"");
  EXPECT_ERROR(changed("tokenizer.ggml.merges", [](auto& b) { b.texts("tokenizer.ggml.merges", {"ab"}); }),
               "merge 0 is \"ab\", not two tokens");
  const auto tokens = [&](std::vector<std::string> list) {
    return changed("tokenizer.ggml.tokens", [&](auto& b) { b.texts("tokenizer.ggml.tokens", list); });
  };
  EXPECT_ERROR(tokens({"a", "b", "c", "ab", "abc", "a", "<end>", "<think>"}), "tokens 0 and 5 are both \"a\"");
  EXPECT_ERROR(tokens({"a", "b", "c", "ab", "abc", "\xff", "<end>", "<think>"}), "token 5 is empty or not UTF-8");
  EXPECT_ERROR(tokens({"a", "b", "c", "ab", "abc", "d", "<end>", "<think>", "e"}),
               "9 tokens, but the embedding has only 8 rows");
  EXPECT_ERROR(changed("tokenizer.ggml.eos_token_id", [](auto& b) { b.u32("tokenizer.ggml.eos_token_id", 8); }),
               "eos_token_id");
}

TEST_F(GgufImportTest, EndOfTurnTokensStopToo) {
  GgufBuilder b = tiny("llama");
  b.u32("tokenizer.ggml.eot_token_id", 7);
  ASSERT_TRUE(import_file(add_tensors(b, "llama")));
  EXPECT_EQ(json("generation_config.json")["eos_token_id"], (Json{6, 7}));
  EXPECT_EQ(Checkpoint::open(out())->config().stop_tokens, (std::vector<int32_t>{6, 7}));
}

TEST_F(GgufImportTest, AnExistingFolderIsKeptWithoutForce) {
  GgufBuilder b = tiny("llama");
  std::ofstream(file(), std::ios::binary) << add_tensors(b, "llama").build();
  fs::create_directories(out());
  std::ofstream(out() / "mine") << "x";
  auto r = import_gguf(file(), out(), {});
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().text.find("exists already"), std::string::npos);
  EXPECT_TRUE(fs::exists(out() / "mine"));
  EXPECT_FALSE(import_gguf(file(), out(), {.force = true})) << "it is no model's folder";
  std::ofstream(out() / "config.json") << "{}";
  EXPECT_TRUE(import_gguf(file(), out(), {.force = true}));
  EXPECT_FALSE(fs::exists(out() / "mine"));
}

}  // namespace
}  // namespace zeroulp::model
