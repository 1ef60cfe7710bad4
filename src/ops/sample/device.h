// Sampling on a GPU: many rows at once, the same tokens as Sampler::draw.
#pragma once

#include "device/device.h"
#include "ops/sample/contract.h"

namespace zeroulp::ops::sample {

// One draw's settings, ready for the kernel.
struct Draw {
  float factor = 0;           // div_rn(log2e, temperature); 0: argmax
  int64_t top_k = 0;          // 0: off
  uint64_t p16 = 65536;       // see top_p_16; 65536 and above: off
  uint64_t random = 0;        // random_bits()
};
inline Draw make_draw(const Settings& s, uint32_t position, uint64_t request) {
  return {s.temperature == 0.0f ? 0.0f : num::kLog2E / s.temperature, s.top_k, s.top_p < 1.0 ? top_p_16(s.top_p) : 65536,
          random_bits(s, position, request)};
}

struct Rows {
  const float* logits;  // [rows, count], row stride `stride`; count < 2^32
  int64_t stride, rows, count;
  const Draw* draws;  // [rows]
  int64_t* tokens;    // [rows]; -1 when a logit is NaN or infinite
};

void cuda(const Rows& args, const device::Launch& launch);

}  // namespace zeroulp::ops::sample
