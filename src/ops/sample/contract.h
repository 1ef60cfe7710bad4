// Seeded sampling (docs/contract.md, section 8): fixed-point weights, integer sums, a counter-based random number keyed by seed, request
// and position. A request id is never a batch slot.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/host_device.h"
#include "num/exp2.h"
#include "num/philox.h"
#include "num/round.h"
#include "ops/argmax/reference.h"

namespace zeroulp::ops::sample {

struct Settings {
  float temperature = 0.0f;  // 0: argmax; otherwise in [2^-20, 2^20]
  int64_t top_k = 0;         // 0: off
  double top_p = 1.0;        // in (0, 1]; 1: off
  uint64_t seed = 0;
};

// w = rne(2^30 * exp2_5(mul(sub(l, M), div_rn(log2e, T)))).
ZU_HD inline uint64_t weight(float logit, float max, float factor) {
  return static_cast<uint64_t>(num::rne64(0x1p30f * num::exp2_5((logit - max) * factor)));
}

// The random number of a draw: the first two words of Philox-4x32-10, key = seed, counter = (position, request low, request high, purpose).
inline constexpr uint32_t kPurposeToken = 0;
ZU_HD constexpr uint64_t random_bits(const Settings& s, uint32_t position, uint64_t request, uint32_t purpose = kPurposeToken) {
  const num::PhiloxCounter r = num::philox_4x32_10(
      {position, static_cast<uint32_t>(request), static_cast<uint32_t>(request >> 32), purpose}, s.seed);
  return (uint64_t{r[0]} << 32) | r[1];
}

// 65536 * top_p as the rule counts it; at 65536 and above it is off.
inline uint64_t top_p_16(double top_p) { return static_cast<uint64_t>(std::nearbyint(65536.0 * top_p)); }
// Whether a prefix with the weight `cumulative` of the whole `sum` is long enough.
ZU_HD constexpr bool reaches_top_p(uint64_t cumulative, uint64_t sum, uint64_t p16) {
  __extension__ using u128 = unsigned __int128;
  return static_cast<u128>(cumulative) * 65536 >= static_cast<u128>(p16) * sum;
}
// floor(random * S / 2^64): the first kept index whose cumulative weight passes it is drawn.
ZU_HD constexpr uint64_t draw_mark(uint64_t random, uint64_t sum) {
  __extension__ using u128 = unsigned __int128;
  return static_cast<uint64_t>((static_cast<u128>(random) * sum) >> 64);
}

// Draws tokens; keeps its scratch between calls. Temperature, then top-k, then top-p; candidates in order of (logit descending, index
// ascending); the draw walks the kept indices in ascending order and takes the first with cum > umulhi(random, S).
class Sampler {
 public:
  explicit Sampler(int64_t vocabulary, argmax::Fn* argmax = argmax::reference);
  // The token for the logits [count]; -1 when a logit is NaN or infinite, at any temperature.
  int64_t draw(const float* logits, int64_t count, const Settings& settings, uint32_t position, uint64_t request);

 private:
  argmax::Fn* argmax_;
  std::vector<uint64_t> weights_;
  std::vector<int32_t> order_;
};

}  // namespace zeroulp::ops::sample
