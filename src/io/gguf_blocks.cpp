#include "io/gguf_blocks.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "num/bf16.h"
#include "num/fp16.h"

// Every product below is exact in binary32 (at most 11 + 7 + 6 significant bits), so each value is rounded at most once, by the
// one addition of the formats with a minimum: order of factors and fused multiply-adds cannot change a bit.
namespace zeroulp::io {
namespace {

uint8_t byte_at(const std::byte* p, int i) { return static_cast<uint8_t>(p[i]); }
int8_t signed_at(const std::byte* p, int i) { return static_cast<int8_t>(p[i]); }
uint32_t u32_at(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
uint16_t u16_at(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}
float half_at(const std::byte* p) { return num::fp16_to_float(u16_at(p)); }

void f32(const std::byte* b, float* out) { std::memcpy(out, b, 4); }
void f16(const std::byte* b, float* out) { *out = half_at(b); }
void bf16(const std::byte* b, float* out) { *out = num::bf16_to_float(u16_at(b)); }

// half d; 32 x int8.
void q8_0(const std::byte* b, float* out) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(signed_at(b + 2, i));
}

// half d; 16 bytes: low nibbles are elements 0..15, high nibbles 16..31.
void q4_0(const std::byte* b, float* out) {
  const float d = half_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((byte_at(b + 2, i) & 15) - 8);
    out[i + 16] = d * static_cast<float>((byte_at(b + 2, i) >> 4) - 8);
  }
}

// half d, half m; nibbles as in Q4_0.
void q4_1(const std::byte* b, float* out) {
  const float d = half_at(b), m = half_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(byte_at(b + 4, i) & 15) + m;
    out[i + 16] = d * static_cast<float>(byte_at(b + 4, i) >> 4) + m;
  }
}

// half d; u32 of fifth bits; nibbles as in Q4_0.
void q5_0(const std::byte* b, float* out) {
  const float d = half_at(b);
  const uint32_t high = u32_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    const uint32_t lo = (byte_at(b + 6, i) & 15u) | (high >> i & 1u) << 4;
    const uint32_t hi = (byte_at(b + 6, i) >> 4) | (high >> (i + 16) & 1u) << 4;
    out[i] = d * static_cast<float>(static_cast<int>(lo) - 16);
    out[i + 16] = d * static_cast<float>(static_cast<int>(hi) - 16);
  }
}

// half d, half m; u32 of fifth bits; nibbles as in Q4_0.
void q5_1(const std::byte* b, float* out) {
  const float d = half_at(b), m = half_at(b + 2);
  const uint32_t high = u32_at(b + 4);
  for (int i = 0; i < 16; ++i) {
    const uint32_t lo = (byte_at(b + 8, i) & 15u) | (high >> i & 1u) << 4;
    const uint32_t hi = (byte_at(b + 8, i) >> 4) | (high >> (i + 16) & 1u) << 4;
    out[i] = d * static_cast<float>(lo) + m;
    out[i + 16] = d * static_cast<float>(hi) + m;
  }
}

// Scale and minimum of sub-block j from the 12 bytes that hold eight 6-bit pairs.
struct ScaleMin {
  float scale, min;
};
ScaleMin scale_min(const std::byte* s, int j) {
  if (j < 4) return {static_cast<float>(byte_at(s, j) & 63), static_cast<float>(byte_at(s, j + 4) & 63)};
  const int scale = (byte_at(s, j + 4) & 15) | (byte_at(s, j - 4) >> 6) << 4;
  const int min = (byte_at(s, j + 4) >> 4) | (byte_at(s, j) >> 6) << 4;
  return {static_cast<float>(scale), static_cast<float>(min)};
}

// half d, half dmin; 12 bytes of scales; 128 bytes: each 32 hold the low nibbles of one sub-block and the high ones of the next.
void q4_k(const std::byte* b, float* out) {
  const float d = half_at(b), dmin = half_at(b + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin s = scale_min(b + 4, j);
    const float scale = d * s.scale, min = dmin * s.min;
    const std::byte* q = b + 16 + 32 * (j / 2);
    for (int i = 0; i < 32; ++i) {
      const int code = j % 2 == 0 ? byte_at(q, i) & 15 : byte_at(q, i) >> 4;
      out[32 * j + i] = scale * static_cast<float>(code) - min;
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits (bit j for sub-block j) before the nibbles.
void q5_k(const std::byte* b, float* out) {
  const float d = half_at(b), dmin = half_at(b + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin s = scale_min(b + 4, j);
    const float scale = d * s.scale, min = dmin * s.min;
    const std::byte* q = b + 48 + 32 * (j / 2);
    for (int i = 0; i < 32; ++i) {
      const int nibble = j % 2 == 0 ? byte_at(q, i) & 15 : byte_at(q, i) >> 4;
      const int code = nibble | (byte_at(b + 16, i) >> j & 1) << 4;
      out[32 * j + i] = scale * static_cast<float>(code) - min;
    }
  }
}

// 128 bytes of low nibbles, 64 of high bit pairs, 16 x int8 scales, half d last. Two halves of 128 elements, four rows of 32 each.
void q6_k(const std::byte* b, float* out) {
  const float d = half_at(b + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte *low = b + 64 * half, *high = b + 128 + 32 * half, *scales = b + 192 + 8 * half;
    for (int row = 0; row < 4; ++row) {
      for (int i = 0; i < 32; ++i) {
        const uint8_t byte = byte_at(low, i + 32 * (row % 2));
        const int nibble = row < 2 ? byte & 15 : byte >> 4;
        const int code = (nibble | (byte_at(high, i) >> (2 * row) & 3) << 4) - 32;
        const float scale = d * static_cast<float>(signed_at(scales, 2 * row + i / 16));
        out[128 * half + 32 * row + i] = scale * static_cast<float>(code);
      }
    }
  }
}

constexpr GgufTypeInfo kTypes[] = {
    {GgufType::kF32, "F32", 1, 4, f32},        {GgufType::kF16, "F16", 1, 2, f16},
    {GgufType::kBF16, "BF16", 1, 2, bf16},     {GgufType::kQ8_0, "Q8_0", 32, 34, q8_0},
    {GgufType::kQ4_0, "Q4_0", 32, 18, q4_0},   {GgufType::kQ4_1, "Q4_1", 32, 20, q4_1},
    {GgufType::kQ5_0, "Q5_0", 32, 22, q5_0},   {GgufType::kQ5_1, "Q5_1", 32, 24, q5_1},
    {GgufType::kQ4_K, "Q4_K", 256, 144, q4_k}, {GgufType::kQ5_K, "Q5_K", 256, 176, q5_k},
    {GgufType::kQ6_K, "Q6_K", 256, 210, q6_k},
};

struct OtherType {
  uint32_t type;
  const char* name;  // null: removed
};
constexpr OtherType kOtherTypes[] = {
    {4, nullptr},    {5, nullptr},  {31, nullptr},  {32, nullptr}, {33, nullptr}, {36, nullptr},   {37, nullptr},
    {38, nullptr},   {9, "Q8_1"},   {10, "Q2_K"},   {11, "Q3_K"},  {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
    {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},
    {25, "I16"},     {26, "I32"},   {27, "I64"},    {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},
    {39, "MXFP4"},   {40, "NVFP4"}, {41, "Q1_0"},
};

}  // namespace

const GgufTypeInfo* gguf_type_info(uint32_t type) {
  for (const GgufTypeInfo& info : kTypes)
    if (static_cast<uint32_t>(info.type) == type) return &info;
  return nullptr;
}

std::string gguf_type_text(uint32_t type) {
  if (const GgufTypeInfo* info = gguf_type_info(type)) return fmt::format("type {} ({})", type, info->name);
  for (const OtherType& other : kOtherTypes) {
    if (other.type != type) continue;
    return other.name != nullptr ? fmt::format("type {} ({})", type, other.name)
                                 : fmt::format("type {}, which was removed from the format", type);
  }
  return fmt::format("type {}, which is unknown", type);
}

void gguf_dequantise(const GgufTypeInfo& type, const std::byte* data, size_t elements, float* out) {
  ZU_CHECK(elements % type.block_elements == 0);
  for (size_t block = 0; block < elements / type.block_elements; ++block)
    type.dequantise(data + block * type.block_bytes, out + block * type.block_elements);
}

}  // namespace zeroulp::io
