// A Hugging Face folder of a few hundred weights, to be damaged by tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/safetensors.h"
#include "model/tensor_names.h"
#include "num/bf16.h"

namespace zeroulp::model {

// Hidden 8, two heads of 4, one KV head, two layers, 16 tokens.
inline io::Json tiny_config(const char* type = "llama") {
  return {{"model_type", type},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"vocab_size", 16},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"rope_theta", 10000.0},
          {"max_position_embeddings", 32},
          {"tie_word_embeddings", false}};
}

struct TinyTensor {
  io::TensorSpec spec;
  std::string bytes;
};
using TinyTensors = std::map<std::string, TinyTensor>;

inline std::string float_bytes(const std::vector<float>& values, Dtype dtype) {
  std::string out;
  for (const float v : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(v);
    const uint16_t half = num::float_to_bf16(v);
    if (dtype == Dtype::kF32) out.append(reinterpret_cast<const char*>(&bits), 4);
    if (dtype == Dtype::kBF16) out.append(reinterpret_cast<const char*>(&half), 2);
  }
  return out;
}

// Every tensor the configuration asks for, BF16, with distinct small values.
inline TinyTensors tiny_tensors(const io::Json& config) {
  auto parsed = parse_config(config, nullptr, "tiny");
  EXPECT_TRUE(parsed.has_value());
  TinyTensors out;
  float next = 1;
  for (const ExpectedTensor& e : expected_tensors(*parsed)) {
    int64_t n = 1;
    for (const int64_t d : e.shape) n *= d;
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = (next += 1) / 64;
    out[e.name] = {{e.name, Dtype::kBF16, e.shape}, float_bytes(values, Dtype::kBF16)};
  }
  return out;
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline void write_tensors(const std::filesystem::path& path, const TinyTensors& tensors) {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, t] : tensors) specs.push_back(t.spec);
  auto writer = io::SafetensorsWriter::create(path, specs, {}, true);
  ASSERT_TRUE(writer) << writer.error().text;
  for (const auto& [name, t] : tensors)
    ASSERT_TRUE(writer->write(name, std::as_bytes(std::span(t.bytes.data(), t.bytes.size()))));
  ASSERT_TRUE(writer->commit());
}

inline void write_folder(const std::filesystem::path& folder, const io::Json& config, const TinyTensors& tensors) {
  std::filesystem::create_directories(folder);
  write_text(folder / "config.json", config.dump());
  write_tensors(folder / "model.safetensors", tensors);
}

}  // namespace zeroulp::model
