// The block formats of GGUF tensors that zeroulp reads: sizes, and their values as binary32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zeroulp::io {

// The numbers are those of the file format.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct GgufTypeInfo {
  GgufType type;
  std::string_view name;
  uint32_t block_elements;
  uint32_t block_bytes;
  void (*dequantise)(const std::byte* block, float* out);  // one block
};

// Null if zeroulp does not read the type.
const GgufTypeInfo* gguf_type_info(uint32_t type);

// "type 10 (Q2_K)", "type 4, which was removed from the format".
std::string gguf_type_text(uint32_t type);

// `elements` is a whole number of blocks. Values equal those of the `gguf` Python package bit for bit, NaN payloads apart.
void gguf_dequantise(const GgufTypeInfo& type, const std::byte* data, size_t elements, float* out);

}  // namespace zeroulp::io
