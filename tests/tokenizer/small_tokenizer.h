// A tokenizer.json made in memory: all 256 bytes, the given merges, and whatever a test adds.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer.h"

namespace zeroulp::tokenizer {

using Json = nlohmann::json;

inline const char* const kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline const char* const kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline Json split_by(const std::string& regex) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
}

// Byte b has id b; merge k makes id 256 + k. Merges are given as bytes, and must be of what stands before them.
inline Json small_json(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  Json vocab = Json::object(), list = Json::array();
  for (int b = 0; b < 256; ++b) vocab[spell_bytes(std::string(1, static_cast<char>(b)))] = b;
  for (const auto& [left, right] : merges) {
    vocab[spell_bytes(left + right)] = vocab.size();
    list.push_back({spell_bytes(left), spell_bytes(right)});
  }
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model", {{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", nullptr}, {"vocab", vocab}, {"merges", list}}}};
}

// Adds a token with the next free id; `flags` are those that differ from a plain special token's.
inline uint32_t add_token(Json& json, const std::string& content, const Json& flags = Json::object()) {
  const uint32_t id = json["model"]["vocab"].size() + json["added_tokens"].size();
  Json token = {{"id", id},         {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  token.update(flags);
  json["added_tokens"].push_back(token);
  return id;
}

inline Tokenizer make(const Json& json, const Json& config = Json(), const std::string& chat_template = "") {
  auto t = Tokenizer::from_files({.tokenizer_json = json.dump(),
                                  .tokenizer_config_json = config.is_null() ? "" : config.dump(),
                                  .special_tokens_map_json = "",
                                  .chat_template_jinja = chat_template},
                                 "m");
  EXPECT_TRUE(t) << (t ? "" : t.error().text);
  return std::move(t).value();
}

inline std::string refusal(const Json& json, const Json& config = Json()) {
  auto t = Tokenizer::from_files({.tokenizer_json = json.dump(),
                                  .tokenizer_config_json = config.is_null() ? "" : config.dump(),
                                  .special_tokens_map_json = "",
                                  .chat_template_jinja = ""},
                                 "m");
  return t ? "accepted" : t.error().text;
}

using Ids = std::vector<uint32_t>;

}  // namespace zeroulp::tokenizer
