// The golden files of the tokenizer, and where the real models lie.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "source_dir.h"

namespace zeroulp::tokenizer {

using OrderedJson = nlohmann::ordered_json;

inline std::filesystem::path golden_path(const std::string& name) {
  return std::filesystem::path(source_dir()) / "tests" / "golden" / name;
}

inline OrderedJson golden_json(const std::string& name) {
  const auto text = read_text_file(golden_path(name), 64u << 20);
  EXPECT_TRUE(text) << (text ? "" : text.error().text);
  return OrderedJson::parse(*text);
}

// The rows of a .jsonl.zst file behind its header.
inline std::vector<OrderedJson> golden_rows(const std::string& name) {
  const auto packed = read_text_file(golden_path(name), 64u << 20);
  EXPECT_TRUE(packed) << (packed ? "" : packed.error().text);
  std::string text(ZSTD_getFrameContentSize(packed->data(), packed->size()), '\0');
  EXPECT_EQ(ZSTD_decompress(text.data(), text.size(), packed->data(), packed->size()), text.size());
  std::vector<OrderedJson> rows;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    rows.push_back(OrderedJson::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  EXPECT_EQ(rows.front()["rows"], rows.size() - 1);
  rows.erase(rows.begin());
  return rows;
}

// A vocabulary of the golden files: the committed one, or a real model's under models/ (or ZEROULP_MODELS). Empty: not there.
inline std::filesystem::path vocabulary_folder(const std::string& name) {
  if (name == "llama3-like") return golden_path("tokenizer/llama3-like");
  const char* set = std::getenv("ZEROULP_MODELS");
  const std::filesystem::path models = set != nullptr ? std::filesystem::path(set) : std::filesystem::path(source_dir()) / "models";
  const std::filesystem::path folder = models / (name == "qwen2.5" ? "qwen2.5-coder-0.5b" : name);
  return std::filesystem::exists(folder / "tokenizer.json") ? folder : std::filesystem::path();
}

}  // namespace zeroulp::tokenizer
