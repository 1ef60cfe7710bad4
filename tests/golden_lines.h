// Golden files of JSON lines inside one zstd frame (tests/golden/README.md).
#pragma once

#include <zstd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/json.h"
#include "source_dir.h"

namespace zeroulp {

inline std::filesystem::path golden_folder() { return std::filesystem::path(source_dir()) / "tests/golden"; }

inline std::vector<io::Json> read_golden_lines(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (!file) throw std::runtime_error(file.error().text);
  const auto bytes = file->bytes();
  const auto size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) throw std::runtime_error(path.string() + ": not a golden file");
  std::string text(size, '\0');
  if (ZSTD_decompress(text.data(), text.size(), bytes.data(), bytes.size()) != size) throw std::runtime_error(path.string() + ": damaged");
  std::vector<io::Json> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(io::Json::parse(text.begin() + static_cast<ptrdiff_t>(at), text.begin() + static_cast<ptrdiff_t>(end)));
    at = end + 1;
  }
  return lines;
}

}  // namespace zeroulp
