// The encoder's choice of mode and windows for one block. Not part of the bitstream, but fixed all the same: every encoder of
// this repository, on every processor, makes the same choice, so that equal data give equal frames.
#pragma once

#include <cstdint>

#include "codec/format.h"

namespace zeroulp::codec {

// A sample decides: rows of 256 values, one in eight, placed so that they fall on all channels of the usual row lengths.
inline constexpr uint32_t kRowValues = 256;
ZU_HOST_DEVICE constexpr bool row_is_sampled(uint32_t row) { return row % 8 == row / 8 % 8; }

struct Choice {
  Mode mode = Mode::kW4;
  uint8_t base = 0, shift = 0;
};

// `histogram` counts the sample's symbols, `samples` in all, below 2^exponent_bits. Per mode, the first window is the one that holds
// most samples, the lowest of equals; the second one, among those that contain the first, likewise. Windows end below
// 2^exponent_bits - 1, so that base plus any code fits. Of the modes the one with the least estimated bits, the lowest of equals.
Choice choose(const uint32_t* histogram, uint32_t samples, int exponent_bits, Level level);

// Estimated bits of a mode over the sample, given how many samples lie in its first window and in both.
ZU_HOST_DEVICE constexpr uint32_t estimated_bits(Windows w, uint32_t samples, uint32_t in_first, uint32_t in_both) {
  return samples * static_cast<uint32_t>(w.bits1) + (samples - in_first) * static_cast<uint32_t>(w.bits2) + (samples - in_both) * 8;
}

}  // namespace zeroulp::codec
