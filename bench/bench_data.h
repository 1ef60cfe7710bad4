// Data for the codec's measurements.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace zeroulp {

// The value, or the end of the program with the error's line.
template <class T>
T must(Result<T> r) {
  if (!r) fmt::print(stderr, "{}\n", r.error().text), std::exit(static_cast<int>(r.error().code));
  return std::move(*r);
}
inline void must(Status s) {
  if (!s) fmt::print(stderr, "{}\n", s.error().text), std::exit(static_cast<int>(s.error().code));
}

struct DataSet {
  std::string name;
  std::vector<uint16_t> values;  // BF16
};

inline DataSet read_values(const std::string& path) {
  const MappedFile file = must(MappedFile::open(path));
  DataSet set{path.substr(path.rfind('/') + 1), std::vector<uint16_t>(file.bytes().size() / 2)};
  std::memcpy(set.values.data(), file.bytes().data(), 2 * set.values.size());
  return set;
}

// The tile over and over, `bytes` long.
inline std::vector<std::byte> repeated(std::span<const std::byte> tile, uint64_t bytes) {
  std::vector<std::byte> raw(bytes);
  for (uint64_t at = 0; at < bytes; at += tile.size()) std::memcpy(raw.data() + at, tile.data(), std::min<uint64_t>(tile.size(), bytes - at));
  return raw;
}

}  // namespace zeroulp
