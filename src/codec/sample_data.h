// The data that codecs are compared on when there are no real ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "codec/format.h"
#include "num/round.h"

namespace zeroulp::codec {

// N(0, 1) from a fixed seed.
inline std::vector<float> gaussian(size_t n) {
  std::vector<float> values(n);
  uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
  };
  for (float& v : values) v = static_cast<float>(std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()));
  return values;
}

// The same rounded to BF16.
inline std::vector<uint16_t> gaussian_bf16(size_t n) {
  std::vector<uint16_t> values(n);
  const std::vector<float> from = gaussian(n);
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &from[i], 4);
    values[i] = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  return values;
}

// The same rounded to any type, ties to even; for BYTES to integers in units of 1/24, as 8-bit codes are.
inline std::vector<std::byte> gaussian_of(const TypeInfo& t, size_t n) {
  const size_t element = static_cast<size_t>(t.bytes);
  std::vector<std::byte> bytes(n * element);
  const std::vector<float> from = gaussian(n);
  const int mantissa = 8 * t.bytes - 1 - t.exponent_bits, bias = (1 << (t.exponent_bits == 0 ? 0 : t.exponent_bits - 1)) - 1;
  for (size_t i = 0; i < n; ++i) {
    const float x = from[i];
    int64_t bits;
    if (t.exponent_bits == 0) {
      bits = num::rne64(std::max(-127.0f, std::min(127.0f, x * 24)));
    } else {
      int e;
      std::frexp(x, &e);
      e = std::max(e - 1, 1 - bias);
      bits = num::rne64(std::ldexp(std::fabs(x), mantissa - e)) + (static_cast<int64_t>(e + bias - 1) << mantissa);
      if (std::signbit(x)) bits |= int64_t{1} << (8 * t.bytes - 1);
    }
    std::memcpy(bytes.data() + i * element, &bits, element);
  }
  return bytes;
}

}  // namespace zeroulp::codec
