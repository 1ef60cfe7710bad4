#include "ops/attention/reference.h"

#include <array>
#include <vector>

#include "base/check.h"

namespace zeroulp::ops::attention {
namespace {

// One block's exact sums: A[d] (values), B (probabilities), with their exponents.
struct BlockSums {
  float n = 0;
  int f = 0;
  int32_t b = 0;
  std::vector<int32_t> a;
  bool fault = false;
};

// Keys [first, last] of the block are visible.
BlockSums block_sums(const Args& g, const int16_t* q, float c, const kv_cache::View<const std::byte>& kv, int64_t first,
                     int64_t last) {
  const int64_t d = g.layout.d;
  std::array<float, kBlock> u{};
  BlockSums s;
  s.a.assign(static_cast<size_t>(d), 0);
  int exponent = kv_cache::kZeroRow;
  float max_u = 0;
  for (int64_t j = first; j <= last; ++j) {
    const int32_t acc = raw_score(q, kv.key_hi + j * d, kv.key_lo ? kv.key_lo + j * d : nullptr, d);
    const float uj = num::i2f(acc) * kv.key_scales[j];
    u[static_cast<size_t>(j)] = uj;
    s.fault |= !num::is_finite(uj);
    if (j == first || uj > max_u) max_u = uj;
    exponent = std::max<int>(exponent, kv.value_exponents[j]);
  }
  const float top = c * max_u;
  s.fault |= !(std::fabs(top) < kScoreLimit);
  if (s.fault) return s;
  s.n = block_exponent_n(c, max_u);
  s.f = exponent == kv_cache::kZeroRow ? 0 : exponent;
  for (int64_t j = first; j <= last; ++j) {
    const Weights w = weights(u[static_cast<size_t>(j)], c, s.n, kv.value_exponents[j], s.f);
    s.b += w.w;
    for (int64_t i = 0; i < d; ++i) s.a[static_cast<size_t>(i)] += w.p * kv.values[i * kBlock + j];
  }
  return s;
}

struct Sums {
  State state;
  std::vector<float> o;
};

void add_block(Sums& to, const BlockSums& s) {
  const Alignment al = align(to.state, s.n);
  const float value_gain = al.gain * num::pow2(s.f);
  for (size_t i = 0; i < to.o.size(); ++i) to.o[i] = attention::add_block(to.o[i], s.a[i], al, value_gain);
  to.state.l = attention::add_block(to.state.l, s.b, al, al.gain);
  to.state.n = al.n;
  to.state.empty = false;
}

void add_group(Sums& to, const Sums& group) {
  const Alignment al = align(to.state, group.state.n);
  for (size_t i = 0; i < to.o.size(); ++i) to.o[i] = attention::add_group(to.o[i], group.o[i], al);
  to.state.l = attention::add_group(to.state.l, group.state.l, al);
  to.state.n = al.n;
  to.state.empty = false;
}

// One query head at one position. False on a range error.
bool attend(const Args& g, int64_t position, const int16_t* q, float q_scale, uint16_t* out) {
  const size_t d = static_cast<size_t>(g.layout.d);
  const float c = q_scale * g.score_constant;
  const int64_t first_key = g.window > 0 ? std::max<int64_t>(0, position - g.window + 1) : 0;
  Sums total{{}, std::vector<float>(d, 0.0f)}, group = total;
  for (int64_t block = first_key / kBlock; block <= position / kBlock; ++block) {
    const int64_t base = block * kBlock;
    const kv_cache::View<const std::byte> kv(g.pages[block] + g.page_offset, g.layout);
    const BlockSums s = block_sums(g, q, c, kv, std::max(first_key - base, int64_t{0}), std::min(position - base, kBlock - 1));
    if (s.fault) return false;
    add_block(group, s);
    if (block % kGroup == kGroup - 1 || block == position / kBlock) {
      add_group(total, group);
      group = {{}, std::vector<float>(d, 0.0f)};
    }
  }
  for (size_t i = 0; i < d; ++i) out[i] = num::float_to_bf16(total.o[i] / total.state.l);
  return true;
}

}  // namespace

void reference(const Args& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    for (int64_t head = 0; head < g.group; ++head) {
      uint16_t* out = g.out + row * g.out_stride + head * g.layout.d;
      const bool good = attend(g, g.first_position + row, g.q + row * g.q_stride + head * g.layout.d,
                               g.q_scales[row * g.q_scales_stride + head], out);
      if (good) continue;
      std::fill(out, out + g.layout.d, num::kBf16Nan);
      g.faults[row * g.faults_stride] = 1;
    }
  }
}

}  // namespace zeroulp::ops::attention
