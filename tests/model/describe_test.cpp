#include "model/describe.h"

#include <gtest/gtest.h>

#include "io/gguf_builder.h"
#include "io/temporary_folder.h"
#include "model/tiny_folder.h"

namespace zeroulp::model {
namespace {

TEST(Describe, AHuggingFaceFolder) {
  TemporaryFolder folder;
  write_folder(folder.path(), tiny_config(), tiny_tensors(tiny_config()));
  write_text(folder.path() / "tokenizer.json",
             R"({"model":{"type":"BPE","vocab":{"a":0,"b":1}},"added_tokens":[{"id":1},{"id":2}]})");
  write_text(folder.path() / "tokenizer_config.json", R"({"chat_template":"x"})");
  auto d = describe(folder.path());
  ASSERT_TRUE(d) << d.error().text;
  EXPECT_EQ(d->kind, "hugging-face");
  EXPECT_EQ(d->config->layers, 2);
  EXPECT_EQ(d->tensors.size(), tiny_tensors(tiny_config()).size());
  EXPECT_EQ(d->tokenizer, "BPE");
  EXPECT_EQ(d->tokens, 3u) << "an added token that stands in the vocabulary counts once";
  EXPECT_TRUE(d->has_chat_template);
  EXPECT_FALSE(d->problem);
}

TEST(Describe, AFolderThatCannotBeUsedIsStillShown) {
  TemporaryFolder folder;
  TinyTensors t = tiny_tensors(tiny_config());
  t.erase("model.norm.weight");
  write_folder(folder.path(), tiny_config(), t);
  auto d = describe(folder.path());
  ASSERT_TRUE(d) << d.error().text;
  EXPECT_EQ(d->tensors.size(), t.size());
  EXPECT_EQ(d->config->layers, 2);
  ASSERT_TRUE(d->problem);
  EXPECT_NE(d->problem->text.find("model.norm.weight"), std::string::npos);
  write_text(folder.path() / "config.json", R"({"model_type":"mamba"})");
  d = describe(folder.path());
  ASSERT_TRUE(d) << d.error().text;
  EXPECT_FALSE(d->config);
  EXPECT_NE(d->problem->text.find("mamba"), std::string::npos);
}

TEST(Describe, OneSafetensorsFile) {
  TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  auto writer = io::SafetensorsWriter::create(path, {{"w", Dtype::kI8, {4}}}, {{"format", "pt"}}, false);
  ASSERT_TRUE(writer && writer->write("w", std::as_bytes(std::span("abcd", 4))) && writer->commit());
  auto d = describe(path);
  ASSERT_TRUE(d) << d.error().text;
  EXPECT_EQ(d->kind, "safetensors");
  EXPECT_EQ(d->tensors[0].type, "I8");
  EXPECT_EQ(d->metadata["format"], "pt");
  EXPECT_FALSE(d->config);
  EXPECT_FALSE(d->problem);
}

TEST(Describe, AGgufFileByItsMagic) {
  TemporaryFolder folder;
  io::GgufBuilder b;
  b.text("general.architecture", "gemma").text("tokenizer.ggml.model", "gpt2").text("tokenizer.chat_template", "x");
  b.texts("tokenizer.ggml.tokens", {"a", "b"}).f32_tensor("w", {2, 3}, std::vector<float>(6, 1));
  write_text(folder.path() / "x", b.build());
  auto d = describe(folder.path() / "x");
  ASSERT_TRUE(d) << d.error().text;
  EXPECT_EQ(d->kind, "gguf");
  EXPECT_EQ(d->tokenizer, "gpt2, pre (absent)");
  EXPECT_EQ(d->tokens, 2u);
  EXPECT_TRUE(d->has_chat_template);
  EXPECT_EQ(d->tensors[0].shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(d->metadata["tokenizer.ggml.tokens"]["count"], 2);
  ASSERT_TRUE(d->problem);
  EXPECT_NE(d->problem->text.find("\"gemma\" is not supported"), std::string::npos);
}

TEST(Describe, WhatIsNoModelIsAnError) {
  TemporaryFolder folder;
  EXPECT_NE(describe(folder.path()).error().text.find("not a model folder"), std::string::npos);
  EXPECT_NE(describe(folder.path() / "no").error().text.find("cannot open"), std::string::npos);
  write_text(folder.path() / "text", "hello");
  EXPECT_NE(describe(folder.path() / "text").error().text.find("too short"), std::string::npos);
}

}  // namespace
}  // namespace zeroulp::model
