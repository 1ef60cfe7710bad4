// The data that codecs are compared on when there are no real ones.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace zeroulp::codec {

// N(0, 1) rounded to BF16, from a fixed seed.
inline std::vector<uint16_t> gaussian_bf16(size_t n) {
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

}  // namespace zeroulp::codec
