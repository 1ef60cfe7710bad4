#include "model/checkpoint.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/temporary_folder.h"
#include "model/tiny_folder.h"
#include "source_dir.h"

namespace zeroulp::model {
namespace {

using io::Json;
namespace fs = std::filesystem;

std::string error_of(const fs::path& folder) {
  auto r = Checkpoint::open(folder);
  if (r) return "";
  EXPECT_EQ(r.error().code, ExitCode::kBadInput);
  EXPECT_EQ(r.error().text.find('\n'), std::string::npos);
  return r.error().text;
}
#define EXPECT_ERROR(folder, part) EXPECT_NE(error_of(folder).find(part), std::string::npos) << "gave: " << error_of(folder)

class CheckpointTest : public ::testing::Test {
 protected:
  fs::path folder() const { return folder_.path(); }
  void write(const Json& config, const TinyTensors& tensors) { write_folder(folder(), config, tensors); }
  // Two shards: `second` goes to b, all others to a; the index is `index` when given.
  void write_shards(const TinyTensors& all, const std::string& second, std::optional<Json> index = {}) {
    TinyTensors a = all, b;
    b[second] = all.at(second);
    a.erase(second);
    write_tensors(folder() / "a.safetensors", a);
    write_tensors(folder() / "b.safetensors", b);
    write_text(folder() / "model.safetensors.index.json", (index ? *index : index_of(all, second)).dump());
  }
  static Json index_of(const TinyTensors& all, const std::string& second) {
    Json map = Json::object();
    for (const auto& [name, t] : all) map[name] = name == second ? "b.safetensors" : "a.safetensors";
    return {{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, EveryFamilyOpens) {
  for (const char* type : {"llama", "qwen2", "qwen3"}) {
    Json config = tiny_config(type);
    config["head_dim"] = 8;  // 2 heads x 8 is not hidden 8
    write(config, tiny_tensors(config));
    auto c = Checkpoint::open(folder());
    ASSERT_TRUE(c) << c.error().text;
    EXPECT_EQ(c->find("model.layers.1.self_attn.q_proj.weight")->shape, (std::vector<int64_t>{16, 8}));
    EXPECT_EQ(c->find("model.layers.1.self_attn.o_proj.weight")->shape, (std::vector<int64_t>{8, 16}));
    EXPECT_EQ(c->has("model.layers.0.self_attn.k_proj.bias"), std::string(type) == "qwen2");
    EXPECT_EQ(c->has("model.layers.0.self_attn.k_norm.weight"), std::string(type) == "qwen3");
    EXPECT_TRUE(c->notes().empty());
  }
}

TEST_F(CheckpointTest, FoldersThatTransformersWroteOpen) {
  int opened = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() + "/tests/golden/tiny")) {
    auto c = Checkpoint::open(entry.path());
    ASSERT_TRUE(c) << c.error().text;
    EXPECT_TRUE(c->notes().empty()) << entry.path();
    for (const auto& [name, place] : c->files().tensors()) EXPECT_TRUE(c->bf16(name).has_value()) << name;
    ++opened;
  }
  EXPECT_GE(opened, 4);
}

TEST_F(CheckpointTest, EachTensorIsReadByItsOwnType) {
  TinyTensors t = tiny_tensors(tiny_config());
  const std::vector<float> values = {1.0f, -0.0f, 1.00390625f, 1.01171875f, 1e-40f, 3.0f, 1.0f / 3, -2.5f};
  t["model.norm.weight"] = {{"model.norm.weight", Dtype::kF32, {8}}, float_bytes(values, Dtype::kF32)};
  const uint16_t halves[8] = {0x3C00, 0x8000, 0x0001, 0x7BFF, 0x3C01, 0xC000, 0x3555, 0x03FF};
  const std::string name = "model.layers.0.input_layernorm.weight";
  t[name] = {{name, Dtype::kF16, {8}}, std::string(reinterpret_cast<const char*>(halves), 16)};
  write(tiny_config(), t);
  auto c = Checkpoint::open(folder());
  ASSERT_TRUE(c) << c.error().text;
  EXPECT_EQ(*c->floats("model.norm.weight"), values);
  EXPECT_EQ(*c->bf16("model.norm.weight"),
            (std::vector<uint16_t>{0x3F80, 0x8000, 0x3F80, 0x3F82, 0x0001, 0x4040, 0x3EAB, 0xC020}))
      << "rounded to nearest, ties to even";
  EXPECT_EQ(*c->floats(name),
            (std::vector<float>{1.0f, -0.0f, 0x1p-24f, 65504.0f, 1.0009765625f, -2.0f, 0.333251953125f, 0x1.ff8p-15f}));
  const auto norm = c->bf16("model.layers.1.input_layernorm.weight");
  const TinyTensor& stored = t["model.layers.1.input_layernorm.weight"];
  EXPECT_EQ(std::memcmp(norm->data(), stored.bytes.data(), stored.bytes.size()), 0) << "BF16 comes as it is";
  const auto whole = *c->floats(kEmbeddingName);
  const auto rows = *c->float_rows(kEmbeddingName, 3, 5);
  EXPECT_EQ(rows, std::vector<float>(whole.begin() + 24, whole.begin() + 40));
}

TEST_F(CheckpointTest, NonFiniteWeightsNameTensorAndElement) {
  const std::string name = "model.norm.weight";
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    TinyTensors t = tiny_tensors(tiny_config());
    t[name] = {{name, Dtype::kF32, {8}}, float_bytes({1, 1, 1, bad, 1, 1, 1, 1}, Dtype::kF32)};
    write(tiny_config(), t);
    auto c = Checkpoint::open(folder());
    ASSERT_TRUE(c) << c.error().text;
    EXPECT_NE(c->floats(name).error().text.find("\"model.norm.weight\" holds"), std::string::npos);
    EXPECT_NE(c->bf16(name).error().text.find("at element 3"), std::string::npos);
  }
  TinyTensors t = tiny_tensors(tiny_config());
  t[name] = {{name, Dtype::kF32, {8}}, float_bytes(std::vector<float>(8, 3.4e38f), Dtype::kF32)};
  write(tiny_config(), t);
  auto c = Checkpoint::open(folder());
  EXPECT_TRUE(c->floats(name).has_value());
  EXPECT_FALSE(c->bf16(name).has_value()) << "finite as float, infinite once rounded";
}

TEST_F(CheckpointTest, TheThreeFormsOfTheHead) {
  Json config = tiny_config();
  TinyTensors t = tiny_tensors(config);
  TinyTensors without = t, equal = t;
  without.erase(kHeadName);
  equal[kHeadName].bytes = equal[kEmbeddingName].bytes;

  write(config, without);
  EXPECT_ERROR(folder(), "missing: lm_head.weight; set tie_word_embeddings");
  config["tie_word_embeddings"] = true;
  write(config, without);
  auto c = Checkpoint::open(folder());
  ASSERT_TRUE(c) << c.error().text;
  EXPECT_TRUE(c->notes().empty());
  write(config, equal);
  EXPECT_TRUE(Checkpoint::open(folder())->notes().empty());
  write(config, t);
  const auto notes = Checkpoint::open(folder())->notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("lm_head.weight differs from model.embed_tokens.weight"), std::string::npos);
}

TEST_F(CheckpointTest, AllTensorsThatDifferStandInOneLine) {
  TinyTensors t = tiny_tensors(tiny_config());
  t.erase("model.norm.weight");
  t.erase("model.layers.1.mlp.up_proj.weight");
  t["model.layers.0.self_attn.q_proj.bias"] = {{"model.layers.0.self_attn.q_proj.bias", Dtype::kBF16, {8}},
                                               std::string(16, '\0')};
  t["model.layers.0.self_attn.k_proj.weight"].spec.shape = {8, 4};
  t["model.layers.0.input_layernorm.weight"].spec.dtype = Dtype::kI16;
  write(tiny_config(), t);
  const std::string error = error_of(folder());
  for (const char* part : {"missing: model.layers.1.mlp.up_proj.weight, model.norm.weight",
                           "wrong shape: model.layers.0.self_attn.k_proj.weight is [8, 4] and should be [4, 8]",
                           "not BF16, F16 or F32: model.layers.0.input_layernorm.weight is I16",
                           "not part of this architecture: \"model.layers.0.self_attn.q_proj.bias\""})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  write(tiny_config(), {});
  EXPECT_ERROR(folder(), "and 16 more");
}

TEST_F(CheckpointTest, StoredRotaryBuffersAreIgnoredWithANote) {
  TinyTensors t = tiny_tensors(tiny_config());
  const std::string name = "model.layers.0.self_attn.rotary_emb.inv_freq";
  t[name] = {{name, Dtype::kF32, {2}}, std::string(8, '\0')};
  write(tiny_config(), t);
  auto c = Checkpoint::open(folder());
  ASSERT_TRUE(c) << c.error().text;
  ASSERT_EQ(c->notes().size(), 1u);
  EXPECT_NE(c->notes()[0].find("inv_freq\" is ignored"), std::string::npos);
}

TEST_F(CheckpointTest, ShardsAreReadAndStrayFilesNoted) {
  const TinyTensors t = tiny_tensors(tiny_config());
  write(tiny_config(), {});  // a stray model.safetensors without any tensor
  write_shards(t, "model.norm.weight");
  auto c = Checkpoint::open(folder());
  ASSERT_TRUE(c) << c.error().text;
  EXPECT_TRUE(c->bf16("model.norm.weight").has_value());
  ASSERT_EQ(c->notes().size(), 1u);
  EXPECT_NE(c->notes()[0].find("model.safetensors: ignored"), std::string::npos);
}

TEST_F(CheckpointTest, IndexAndShardsMustAgree) {
  const TinyTensors t = tiny_tensors(tiny_config());
  const std::string moved = "model.norm.weight", other = "model.layers.0.mlp.up_proj.weight";
  write_text(folder() / "config.json", tiny_config().dump());
  const auto index_with = [&](const std::string& tensor, const Json& shard) {
    Json index = index_of(t, moved);
    index["weight_map"][tensor] = shard;
    return index;
  };
  write_shards(t, moved, index_with(moved, "a.safetensors"));
  EXPECT_ERROR(folder(), "\"model.norm.weight\" is not in \"a.safetensors\"") << "b is not read, as no entry names it";
  write_shards(t, moved, index_with(other, "b.safetensors"));
  EXPECT_ERROR(folder(), "\"model.layers.0.mlp.up_proj.weight\" is not in \"b.safetensors\"");
  write_shards(t, moved, index_with("model.extra", "b.safetensors"));
  EXPECT_ERROR(folder(), "\"model.extra\" is not in \"b.safetensors\"");
  write_shards(t, moved, index_with(moved, "c.safetensors"));
  EXPECT_ERROR(folder(), "c.safetensors: cannot open");
  for (const Json& bad : {Json("../b.safetensors"), Json(".."), Json("/etc/passwd"), Json("x\\b"), Json(""), Json(3)}) {
    write_shards(t, moved, index_with(moved, bad));
    EXPECT_ERROR(folder(), "not a plain file name");
  }
  Json unlisted = index_of(t, moved);
  unlisted["weight_map"].erase(other);
  write_shards(t, moved, unlisted);
  EXPECT_ERROR(folder(), "is not in the index");
  write_shards(t, moved, Json{{"weight_map", Json::object()}});
  EXPECT_ERROR(folder(), "weight_map is empty");
  write_shards(t, moved, Json::array());
  EXPECT_ERROR(folder(), "weight_map is missing");
}

TEST_F(CheckpointTest, OneNameInTwoShardsNamesBoth) {
  const TinyTensors t = tiny_tensors(tiny_config());
  write_text(folder() / "config.json", tiny_config().dump());
  write_shards(t, "model.norm.weight");
  write_tensors(folder() / "a.safetensors", t);
  EXPECT_ERROR(folder(), "\"model.norm.weight\" stands in a.safetensors and in b.safetensors");
  write_text(folder() / "model.safetensors.index.json", R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})");
  EXPECT_ERROR(folder(), "stands twice");
}

TEST_F(CheckpointTest, FoldersWithoutTheirPartsAreNamed) {
  EXPECT_ERROR(folder() / "nothing", "is not a folder");
  EXPECT_ERROR(folder(), "config.json: cannot open");
  write_text(folder() / "config.json", tiny_config().dump());
  EXPECT_ERROR(folder(), "holds neither model.safetensors nor");
  write_text(folder() / "config.json", "{");
  EXPECT_ERROR(folder(), "config.json: the text ends at byte 1");
}

TEST_F(CheckpointTest, StopTokensJoinThoseOfTheTokenizer) {
  Json config = tiny_config();
  config["eos_token_id"] = 1;
  write(config, tiny_tensors(config));
  write_text(folder() / "generation_config.json", R"({"eos_token_id":[1,6]})");
  write_text(folder() / "tokenizer_config.json", R"({"eos_token":{"content":"<end>"}})");
  const std::string tokenizer = R"({"added_tokens":[{"id":4,"content":"<end>"},{"id":5,"content":"<other>"}]})";
  write_text(folder() / "tokenizer.json", tokenizer);
  auto c = Checkpoint::open(folder());
  ASSERT_TRUE(c) << c.error().text;
  EXPECT_EQ(c->config().stop_tokens, (std::vector<int32_t>{1, 4, 6}));
  write_text(folder() / "tokenizer_config.json", R"({"eos_token":"<other>"})");
  EXPECT_EQ(Checkpoint::open(folder())->config().stop_tokens, (std::vector<int32_t>{1, 5, 6}));
  write_text(folder() / "tokenizer.json", R"({"added_tokens":[{"id":16,"content":"<other>"}]})");
  EXPECT_ERROR(folder(), "has id 16, but the vocabulary has 16 rows");
}

}  // namespace
}  // namespace zeroulp::model
