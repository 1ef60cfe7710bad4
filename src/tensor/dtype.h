// Element types of tensors in files and in memory: names and sizes. What their bits mean stands in num.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zeroulp {

enum class Dtype : uint8_t {
  kBool, kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64,
  kF16, kBF16, kF32, kF64, kC64,
  kF8E4M3, kF8E5M2, kF8E8M0, kF8E4M3FNUZ, kF8E5M2FNUZ,
  kF6E2M3, kF6E3M2, kF4,
};

struct DtypeInfo {
  Dtype dtype;
  std::string_view name;  // as safetensors spells it
  int bits;               // per element; below 8 for packed types
};

inline constexpr DtypeInfo kDtypes[] = {
    {Dtype::kBool, "BOOL", 8},        {Dtype::kU8, "U8", 8},
    {Dtype::kI8, "I8", 8},            {Dtype::kU16, "U16", 16},
    {Dtype::kI16, "I16", 16},         {Dtype::kU32, "U32", 32},
    {Dtype::kI32, "I32", 32},         {Dtype::kU64, "U64", 64},
    {Dtype::kI64, "I64", 64},         {Dtype::kF16, "F16", 16},
    {Dtype::kBF16, "BF16", 16},       {Dtype::kF32, "F32", 32},
    {Dtype::kF64, "F64", 64},         {Dtype::kC64, "C64", 64},
    {Dtype::kF8E4M3, "F8_E4M3", 8},   {Dtype::kF8E5M2, "F8_E5M2", 8},
    {Dtype::kF8E8M0, "F8_E8M0", 8},   {Dtype::kF8E4M3FNUZ, "F8_E4M3FNUZ", 8},
    {Dtype::kF8E5M2FNUZ, "F8_E5M2FNUZ", 8},
    {Dtype::kF6E2M3, "F6_E2M3", 6},   {Dtype::kF6E3M2, "F6_E3M2", 6},
    {Dtype::kF4, "F4", 4},
};

constexpr const DtypeInfo& dtype_info(Dtype dtype) { return kDtypes[static_cast<uint8_t>(dtype)]; }
constexpr std::string_view dtype_name(Dtype dtype) { return dtype_info(dtype).name; }
constexpr int dtype_bits(Dtype dtype) { return dtype_info(dtype).bits; }

// The type that safetensors calls `name`; absent if there is none.
constexpr std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const DtypeInfo& info : kDtypes)
    if (info.name == name) return info.dtype;
  return std::nullopt;
}

constexpr bool dtypes_are_in_enum_order() {
  for (uint8_t i = 0; i < sizeof(kDtypes) / sizeof(kDtypes[0]); ++i)
    if (static_cast<uint8_t>(kDtypes[i].dtype) != i) return false;
  return true;
}
static_assert(dtypes_are_in_enum_order());

}  // namespace zeroulp
