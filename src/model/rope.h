// RoPE frequencies as Hugging Face's modeling code computes them in fp32 on the CPU, bit for bit.
//
// The powers theta^(2i/d) come from PyTorch, whose result depends on where an element lies: whole groups of 32 go through the
// vectorised powf (num/powf_sleef.h), the rest through the C library's. This follows PyTorch on x86-64 with AVX-512; with AVX2 the
// groups are of 16, which gives the same for head sizes 64, 128 and 256. Every other step is one IEEE fp32 operation.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace zeroulp::model {

struct RopeDefault {};
struct RopeLinear {
  double factor;
};
struct RopeLlama3 {
  double factor, low_freq_factor, high_freq_factor, original_positions;
};
struct RopeYarn {
  double factor, original_positions;
  double beta_fast = 32, beta_slow = 1;
  double attention_factor;  // resolved: see yarn_attention_factor
  bool truncate = true;
};
using RopeRule = std::variant<RopeDefault, RopeLinear, RopeLlama3, RopeYarn>;

// What Hugging Face uses when the configuration gives no attention_factor; mscale and mscale_all_dim are 0 when absent.
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim);

// head_dim / 2 frequencies; head_dim even, theta > 0.
std::vector<float> rope_frequencies(double theta, int64_t head_dim, const RopeRule& rule);

}  // namespace zeroulp::model
