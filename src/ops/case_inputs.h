// Inputs for the cases of the ops. Seeded, from integers alone: the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "num/bf16.h"
#include "num/philox.h"

namespace zeroulp::ops::conformance {

// Lengths around the lane counts of the fast variants, and those of real models.
inline constexpr int64_t kOddLengths[] = {1,  2,  3,  7,   8,   9,   15,  16,  17,  31,  32, 33,
                                          63, 64, 65, 100, 127, 128, 129, 255, 257, 576, 896};

// Values that special-case code gets wrong: zeros, subnormals, the ends of the normal range, infinities, NaNs of several payloads.
inline constexpr uint16_t kSpecialBf16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x8080, 0x3F80, 0xBF80,
                                            0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7F81, 0x7FC0, 0xFFC0, 0xFFFF};

// Random sign and fraction; the exponent field uniform in [low, high].
inline uint16_t random_bf16(num::PhiloxStream& random, int low, int high) {
  const uint32_t r = random.next(), exponent = static_cast<uint32_t>(low) + random.below(static_cast<uint64_t>(high - low + 1));
  return static_cast<uint16_t>((r & 0x807F) | (exponent << 7));
}
inline std::vector<uint16_t> random_bf16s(num::PhiloxStream& random, int64_t count, int low, int high) {
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (uint16_t& v : values) v = random_bf16(random, low, high);
  return values;
}

// A bell of width about one, times `scale`; one value in 64 is 20 times larger, as activations of language models are.
inline float bell(num::PhiloxStream& random, float scale) {
  float sum = 0;
  for (int i = 0; i < 6; ++i) sum += random.symmetric();
  return sum * scale * (random.below(64) == 0 ? 14.0f : 0.7f);
}
inline std::vector<uint16_t> bell_bf16s(num::PhiloxStream& random, int64_t count, float scale) {
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (uint16_t& v : values) v = num::float_to_bf16(bell(random, scale));
  return values;
}

inline std::vector<uint16_t> every_bf16() {
  std::vector<uint16_t> values(65536);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
  return values;
}

inline std::vector<int8_t> random_codes(num::PhiloxStream& random, int64_t count) {
  std::vector<int8_t> codes(static_cast<size_t>(count));
  for (int8_t& c : codes) c = static_cast<int8_t>(static_cast<int>(random.below(255)) - 127);
  return codes;
}

// A normal float with random fraction and the exponent uniform in [low, high].
inline float random_scale(num::PhiloxStream& random, int low, int high) {
  const uint32_t exponent = static_cast<uint32_t>(low + 127) + random.below(static_cast<uint64_t>(high - low + 1));
  return num::float_of((exponent << 23) | (random.next() >> 9));
}

}  // namespace zeroulp::ops::conformance
