// The safetensors container: a strict reader over a memory map, and a writer that holds one tensor at a time.
//
// File: u64 little-endian header length N <= 100,000,000; N bytes of JSON, an object of name -> {dtype, shape, data_offsets}, space-padded to
// a multiple of 8; then the tensors' bytes, which fill the rest of the file without hole or overlap. The writer pads further, so that these
// bytes begin at a multiple of 64, a cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace zeroulp::io {

inline constexpr uint64_t kSafetensorsHeaderLimit = 100'000'000;
inline constexpr size_t kMaxRank = 8;

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;

  int64_t elements() const;  // 1 for rank 0
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // by offset
  Metadata metadata;
};

// Validates a whole file image. Nothing is allocated from a length that has not been checked against `file`.
// `name` opens the error line.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file, std::string_view name);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  static Result<SafetensorsFile> of(MappedFile file);

  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // by offset
  const Metadata& metadata() const { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const;              // null if absent
  std::span<const std::byte> data(const TensorInfo& tensor) const;  // not aligned: copy elements out with memcpy
  const std::filesystem::path& path() const { return file_.path(); }
  uint64_t file_bytes() const { return file_.bytes().size(); }

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

// What a tensor will be, before its bytes are there.
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<int64_t> shape;
};

// Bytes of a tensor of this type and shape; refuses negative sizes, overflow, rank > 8 and packed types that end inside a byte.
// `what` opens the error line.
Result<uint64_t> tensor_bytes(Dtype dtype, std::span<const int64_t> shape, std::string_view what);

// What a file of these tensors begins with: the header's length and the header. `path` opens error lines.
Result<std::string> safetensors_beginning(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors, const Metadata& metadata);

// Widest elements first, then by name: every tensor is then aligned to its element, and equal contents give equal files.
void sort_for_alignment(std::vector<TensorSpec>& tensors);

// Writes a file whose tensors come one after another in the order of `tensors`, in pieces of any size. The same tensors and
// metadata give the same bytes. Appears under its name at commit(), or not at all.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                                          const Metadata& metadata, bool force);

  // The next bytes of the tensor `name`, which must be the first unfinished one of the order given (anything else is a bug).
  Status write(std::string_view name, std::span<const std::byte> bytes);
  // Every tensor must be complete.
  Status commit();

  uint64_t data_bytes() const { return data_bytes_; }

 private:
  struct Pending {
    std::string name;
    uint64_t bytes;
  };
  explicit SafetensorsWriter(AtomicFile file) : file_(std::move(file)) {}
  void skip_finished();

  AtomicFile file_;
  std::vector<Pending> pending_;
  size_t current_ = 0;
  uint64_t written_ = 0;  // of pending_[current_]
  uint64_t data_bytes_ = 0;
};

}  // namespace zeroulp::io
