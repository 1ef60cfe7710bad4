// Integer attention (docs/contract.md, section 6). Exact integers inside blocks of 128 keys at absolute positions; blocks are merged in a
// fixed order, inside groups of 8 blocks and then group by group, so that keys may be split at multiples of 1,024.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "num/bf16.h"
#include "num/exp2.h"
#include "num/round.h"
#include "ops/kv_cache/contract.h"
#include "ops/op.h"

namespace zeroulp::ops::attention {

inline constexpr int64_t kBlock = kv_cache::kBlock;
inline constexpr int64_t kGroup = 8;    // blocks to a group
inline constexpr int64_t kMaxD = 1032;  // raw scores stay inside int32
inline constexpr float kProbabilityTop = 16256.0f;
inline constexpr float kScoreLimit = 4194304.0f;  // 2^22: |c * max u| at or above it is a range error

// Consecutive query rows of one sequence against one KV head: row r stands at position first_position + r.
struct Args {
  kv_cache::Layout layout;
  int64_t rows, group;  // group: query heads that share the KV head
  int64_t first_position;
  int64_t window;        // keys from max(0, i - window + 1); 0: all
  float score_constant;  // C_d, see score_constant()
  const int16_t* q;      // 15-bit codes [rows, group, d], row stride q_stride, heads d apart
  int64_t q_stride;
  const float* q_scales;  // [rows, group], row stride q_scales_stride
  int64_t q_scales_stride;
  const std::byte* const* pages;  // pages[b] + page_offset: the block of positions [128 b, 128 b + 128)
  int64_t page_offset;
  uint16_t* out;  // bf16 [rows, group, d], row stride out_stride, heads d apart
  int64_t out_stride;
  uint8_t* faults;  // [rows], stride faults_stride: set to 1 on a range error, NaN or Inf; otherwise left alone
  int64_t faults_stride;
  // scratch_bytes(layout) bytes at a multiple of 64, this call's own; or null: memory that the calling thread keeps and grows.
  std::byte* scratch = nullptr;
};
using Fn = void(const Args&);

// What the greediest variant needs.
int64_t scratch_bytes(const kv_cache::Layout& layout);

// The fp32 nearest to log2(e) / sqrt(d), times 128 for 15-bit keys (the lo * lo plane is dropped by definition and the score counts in
// units of 128). Correctly rounded for every even d to 1032 (tests/ops/attention_test.cpp, MPFR).
ZU_HD inline float score_constant(int64_t d, int key_width) {
  const auto c = static_cast<float>(0x1.71547652b82fep+0 / std::sqrt(static_cast<double>(d)));
  return key_width == 15 ? 128.0f * c : c;
}

// The raw score of one key: exact, int32 up to d = 1032.
ZU_HD inline int32_t raw_score(const int16_t* q, const int8_t* k_hi, const int8_t* k_lo, int64_t d) {
  int32_t acc = 0;
  for (int64_t i = 0; i < d; ++i) {
    if (k_lo == nullptr) {
      acc += int32_t{q[i]} * k_hi[i];
    } else {
      const int32_t hi = num::plane_hi(q[i]), lo = num::plane_lo(q[i]);
      acc += 128 * hi * k_hi[i] + hi * k_lo[i] + lo * k_hi[i];
    }
  }
  return acc;
}

// Weights of one key in its block: w for the sum of probabilities, p for the values (2^e of the value row folded in against the block's
// exponent F).
struct Weights {
  int32_t w, p;
};
ZU_HD inline Weights weights(float u, float c, float n, int8_t value_exponent, int block_exponent) {
  const float t = kProbabilityTop * num::exp2_3(std::fma(u, c, -n));
  const int32_t p = value_exponent == kv_cache::kZeroRow ? 0 : num::rne(t * num::pow2(value_exponent - block_exponent));
  return {num::rne(t), p};
}

// n of a block: the least integer above c * max u, as far as fp32 tells; every d_j = fma(u_j, c, -n) is then below zero.
ZU_HD inline float block_exponent_n(float c, float max_u) { return std::floor(c * max_u) + 1.0f; }

// Running sums (N, O, L). Empty: L == 0 and nothing was added.
struct State {
  bool empty = true;
  float n = 0;
  float l = 0;
};

// How adding something with exponent n changes a state: `keep` multiplies O and L, `gain` multiplies what is added.
struct Alignment {
  float n, keep, gain;
};
ZU_HD inline Alignment align(const State& s, float n) {
  if (s.empty) return {n, 0.0f, 1.0f};
  const auto factor = [](float difference) { return difference < -64.0f ? 0.0f : num::pow2(static_cast<int>(difference)); };
  return n > s.n ? Alignment{n, factor(s.n - n), 1.0f} : Alignment{s.n, 1.0f, factor(n - s.n)};
}

// One element of O when a block with the exact sum `a` and the exponent F joins; value_gain = gain * 2^F. L joins the same way with F = 0.
ZU_HD inline float add_block(float o, int32_t a, const Alignment& al, float value_gain) {
  const float kept = o * al.keep;
  return al.gain != 0 ? std::fma(num::i2f(a), value_gain, kept) : kept;
}
// One element of O, or L, when a group joins.
ZU_HD inline float add_group(float o, float group, const Alignment& al) { return o * al.keep + group * al.gain; }

// All rows of a pass and all KV heads, as a GPU takes them.
struct Rows {
  kv_cache::Layout layout;
  int64_t rows, heads;        // query heads
  int64_t group, first_head;  // query head h reads KV head (first_head + h) / group - first_head / group
  int64_t window;
  float score_constant;
  const int16_t* q;  // 15-bit codes [rows, heads, d], row stride q_stride, heads d apart
  int64_t q_stride;
  const float* q_scales;  // [rows, heads]
  const int32_t* positions;  // [rows]
  int64_t max_positions;     // above every position: what the launch is sized for
  kv_cache::Pages pages;
  uint16_t* out;  // bf16 [rows, heads, d], row stride out_stride, heads d apart
  int64_t out_stride;
  uint8_t* faults;    // [rows], as in Args
  int32_t* arrivals;  // counters of the split kernels, 0 before and after
  ZU_HD int64_t kv_heads() const { return heads == 0 ? 0 : (first_head + heads - 1) / group - first_head / group + 1; }
};

std::span<const Variant<Fn>> variants();

using OnDevice = DeviceVariant<Rows, Fn>;
std::span<const OnDevice> device_variants();

}  // namespace zeroulp::ops::attention
