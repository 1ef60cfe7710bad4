// GGUF files, versions 2 and 3: metadata and tensors of one file, or of all parts of a split one.
//
// The limits are tighter than the format's, so that a hostile file costs nothing: keys of 65,535 bytes, tensor names of 63, strings
// of 1 MiB, arrays of 64 MiB, 65,536 keys, 65,536 tensors, alignment of 1 MiB, four dimensions, no arrays of arrays. Every count is
// held against the bytes that are left before anything is allocated for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "io/gguf_blocks.h"

namespace zeroulp::io {

inline constexpr uint64_t kGgufStringLimit = 1u << 20;
inline constexpr uint64_t kGgufArrayLimit = 64u << 20;
inline constexpr uint64_t kGgufCountLimit = 65536;
inline constexpr uint64_t kGgufAlignmentLimit = 1u << 20;

// The numbers are those of the file format.
enum class GgufKind : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
std::string_view gguf_kind_name(GgufKind kind);

// One metadata value. Text and array elements lie in the file's map.
struct GgufValue {
  GgufKind kind = GgufKind::kU8;
  std::span<const std::byte> raw;       // a scalar's or a numeric array's bytes
  std::string_view text;                // kString
  GgufKind element = GgufKind::kU8;     // kArray: what it holds
  uint64_t count = 0;                   // kArray
  std::vector<std::string_view> texts;  // kArray of kString

  bool is_integer() const;
  // Of an integer scalar (or element i of an integer array) that fits; absent otherwise.
  std::optional<int64_t> integer() const;
  std::optional<int64_t> integer_at(uint64_t i) const;
  // Of a float scalar, F32 or F64.
  std::optional<double> number() const;
  std::optional<bool> boolean() const;
};

using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first, as in Hugging Face: the reverse of the file's order
  const GgufTypeInfo* type = nullptr;
  std::span<const std::byte> data;

  int64_t elements() const;
  // Of the last dimension; 1 for rank 0.
  int64_t row_elements() const { return shape.empty() ? 1 : shape.back(); }
};

struct GgufContent {
  uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the file's order
};

// Validates a whole file image, which must outlive the result. `name` opens the error line.
Result<GgufContent> parse_gguf(std::span<const std::byte> file, std::string_view name);

// All parts of a model, whichever of them `path` names.
class GgufModel {
 public:
  static Result<GgufModel> open(const std::filesystem::path& path);

  const GgufMetadata& metadata() const { return parts_[0].metadata; }  // of the first part
  uint32_t version() const { return parts_[0].version; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // part by part
  const GgufTensor* find(std::string_view name) const;
  const GgufValue* value(std::string_view key) const;
  const std::filesystem::path& path() const { return files_[0].path(); }  // of the first part
  size_t parts() const { return files_.size(); }
  uint64_t file_bytes() const;

 private:
  std::vector<MappedFile> files_;
  std::vector<GgufContent> parts_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace zeroulp::io
