// Data for the codec's measurements.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

// N(0, 1) rounded to BF16, from a fixed seed.
inline std::vector<uint16_t> gaussian(size_t n) {
  std::vector<uint16_t> values(n);
  uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
  };
  for (uint16_t& v : values) {
    const float x = static_cast<float>(std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()));
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    v = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  return values;
}

inline DataSet read_values(const std::string& path) {
  const MappedFile file = must(MappedFile::open(path));
  DataSet set{path.substr(path.rfind('/') + 1), std::vector<uint16_t>(file.bytes().size() / 2)};
  std::memcpy(set.values.data(), file.bytes().data(), 2 * set.values.size());
  return set;
}

// The values over and over, `bytes` long.
inline std::vector<std::byte> repeated(const std::vector<uint16_t>& values, uint64_t bytes) {
  const auto tile = std::as_bytes(std::span(values));
  std::vector<std::byte> raw(bytes);
  for (uint64_t at = 0; at < bytes; at += tile.size()) std::memcpy(raw.data() + at, tile.data(), std::min<uint64_t>(tile.size(), bytes - at));
  return raw;
}

}  // namespace zeroulp
