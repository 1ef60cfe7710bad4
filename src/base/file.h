// Files as the rest of the code sees them: mapped for reading, written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace zeroulp {

// A read-only memory map of a regular file. Empty files map to an empty span.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  // Memory of `size` bytes that `fill` writes once, in place of a file's content; `path` says where it came from.
  static Result<MappedFile> filled(const std::filesystem::path& path, size_t size,
                                   const std::function<Status(std::span<std::byte>)>& fill);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The whole of a regular file of at most `limit` bytes, as text.
Result<std::string> read_text_file(const std::filesystem::path& path, uint64_t limit);

// Writes under a temporary name in the same folder; commit() syncs and renames. Destroyed uncommitted, it leaves nothing behind. What a killed
// program left under temporary names of the same target is removed by the next create(): a lock on the temporary file tells whether its writer lives.
class AtomicFile {
 public:
  // Refuses an existing `path` unless `force`.
  static Result<AtomicFile> create(const std::filesystem::path& path, bool force);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  // Replaces bytes that have been written already.
  Status rewrite(uint64_t offset, std::span<const std::byte> bytes);
  Status commit();

 private:
  AtomicFile() = default;
  std::filesystem::path path_, temporary_;
  int fd_ = -1;
};

// Whether AtomicFile::create(path, force) would succeed, told before long work; leaves nothing behind. Likewise for a folder.
Status check_file_creatable(const std::filesystem::path& path, bool force);
Status check_folder_creatable(const std::filesystem::path& path, bool force);

// A folder written under a temporary name beside `path`; commit() syncs its files and renames it. Destroyed uncommitted, it is removed. Leftovers of
// killed programs are removed as AtomicFile does.
class AtomicFolder {
 public:
  // Refuses an existing `path` unless `force`. With it a folder is replaced at commit if it is empty, or has a config.json or zeroulp.json and no folders in it.
  static Result<AtomicFolder> create(const std::filesystem::path& path, bool force);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();

  const std::filesystem::path& temporary() const { return temporary_; }
  Status commit();

 private:
  AtomicFolder() = default;
  std::filesystem::path path_, temporary_;
  int lock_ = -1;
};

}  // namespace zeroulp
