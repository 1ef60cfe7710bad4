// The counts that docs/contract.md states: how often another spelling of a rule gives other bits. A count of 0 over all inputs makes the
// other spelling legal; any other count makes it a directed vector.
#include <gtest/gtest.h>

#include <cmath>

#include "base/fp_env.h"
#include "num/philox.h"
#include "num/quant.h"
#include "num/sincos.h"
#include "ops/attention/contract.h"
#include "ops/case_inputs.h"
#include "ops/linear_s8/contract.h"
#include "ops/rope/contract.h"
#include "ops/silu_mul/contract.h"

namespace zeroulp::ops {
namespace {

using num::bf16_to_float;
using num::float_to_bf16;

class ContractNumbers : public testing::Test {
 private:
  FpEnvScope fp_env_;
};

// One binade of largest magnitudes with every x down to 2^-11 of it: 188,480 pairs.
template <class Visit>
void over_one_binade(Visit visit) {
  for (uint32_t a = 0x3F80; a < 0x4000; ++a)
    for (uint32_t x = 0x3A00; x <= a; ++x)
      visit(bf16_to_float(static_cast<uint16_t>(x)), bf16_to_float(static_cast<uint16_t>(a)));
}

struct QuantiserCounts {
  int pairs = 0, ties = 0, divided = 0, reciprocal = 0, contracted = 0, away = 0, upwards = 0, truncated = 0;
};
QuantiserCounts quantiser_counts(int width) {
  QuantiserCounts n;
  over_one_binade([&](float x, float a) {
    const float m = num::quant_multiplier(a, width), s = num::quant_scale(a, width);
    for (const float v : {x, -x}) {
      const int32_t q = num::quant_code(v, m);
      const bool positive = v > 0;
      n.pairs += positive;
      n.ties += positive && std::fabs(v * m - std::trunc(v * m)) == 0.5f;
      n.divided += positive && num::rne(v / s) != q;
      n.reciprocal += positive && num::rne(v * (1.0f / s)) != q;
      n.contracted += positive && static_cast<int32_t>(std::fma(v, m, 12582912.0f) - 12582912.0f) != q;
      n.away += positive && static_cast<int32_t>(std::round(v * m)) != q;
      n.upwards += static_cast<int32_t>(std::floor(v * m + 0.5f)) != q;
      n.truncated += positive && static_cast<int32_t>(v * m) != q;
    }
  });
  return n;
}

TEST_F(ContractNumbers, QuantiserOfEightBits) {
  const QuantiserCounts n = quantiser_counts(8);
  EXPECT_EQ(n.pairs, 188480);
  EXPECT_EQ(n.ties, 218);
  EXPECT_EQ(n.divided, 27);
  EXPECT_EQ(n.reciprocal, 25);
  EXPECT_EQ(n.contracted, 52);
  EXPECT_EQ(n.away, 64);
  EXPECT_EQ(n.upwards, 218);
  EXPECT_EQ(n.truncated, 70686);
}

TEST_F(ContractNumbers, QuantiserOfFifteenBits) {
  const QuantiserCounts n = quantiser_counts(15);
  EXPECT_EQ(n.ties, 529);
  EXPECT_EQ(n.divided, 41);
  EXPECT_EQ(n.reciprocal, 48);
  EXPECT_EQ(n.contracted, 143);
  EXPECT_EQ(n.away, 231);
  EXPECT_EQ(n.upwards, 529);
  EXPECT_EQ(n.truncated, 92970);
}

TEST_F(ContractNumbers, ScaleByAReciprocal) {
  int eight = 0, fifteen = 0;
  for (uint16_t a = 0x3F80; a < 0x4000; ++a) {
    eight += bf16_to_float(a) * (1.0f / 127.0f) != num::quant_scale(bf16_to_float(a), 8);
    fifteen += bf16_to_float(a) * (1.0f / 16256.0f) != num::quant_scale(bf16_to_float(a), 15);
  }
  EXPECT_EQ(eight, 6);
  EXPECT_EQ(fifteen, 6);
}

struct Sample {
  float f, sa, sb, bias;
};
Sample random_sample(num::PhiloxStream& random, bool po2) {
  Sample s;
  const int64_t acc = static_cast<int64_t>(random.next64() >> (26 + random.below(30))) - (1 << 8);
  s.f = num::i2f(acc);
  s.sa = conformance::random_scale(random, -20, 0);
  s.sb = po2 ? num::pow2(static_cast<int>(random.below(48)) - 40) : conformance::random_scale(random, -40, 7);
  const float y = s.sa * (s.sb * s.f);
  s.bias = y * (random.symmetric() * 2.0f);
  return s;
}

struct OrderCounts {
  int64_t first = 0, premultiplied = 0, bias_premultiplied = 0, bias_activation = 0, bias_added = 0;
};
OrderCounts order_counts(bool po2, int64_t samples) {
  num::PhiloxStream random(1);
  OrderCounts n;
  for (int64_t i = 0; i < samples; ++i) {
    const Sample s = random_sample(random, po2);
    const float want = linear_s8::epilogue(s.f, s.sa, s.sb, nullptr), biased = linear_s8::epilogue(s.f, s.sa, s.sb, &s.bias);
    n.first += s.sb * (s.sa * s.f) != want;
    n.premultiplied += (s.sa * s.sb) * s.f != want;
    n.bias_premultiplied += std::fma(s.f, s.sa * s.sb, s.bias) != biased;
    n.bias_activation += std::fma(s.sb, s.sa * s.f, s.bias) != biased;
    n.bias_added += want + s.bias != biased;
  }
  return n;
}

TEST_F(ContractNumbers, OrdersOfTheScales) {
  const OrderCounts free = order_counts(false, 1000000), po2 = order_counts(true, 1000000);
  EXPECT_EQ(po2.first, 0);
  EXPECT_EQ(po2.premultiplied, 0);
  EXPECT_EQ(po2.bias_premultiplied, 0);
  EXPECT_EQ(po2.bias_activation, 362116);
  EXPECT_EQ(po2.bias_added, 362116);
  EXPECT_EQ(free.first, 347877);
  EXPECT_EQ(free.premultiplied, 348157);
  EXPECT_EQ(free.bias_premultiplied, 406543);
  EXPECT_EQ(free.bias_activation, 405563);
  EXPECT_EQ(free.bias_added, 364418);
}

// The three legal ways to convert 128 * hi + lo, and the illegal one.
float by_round_to_odd(int64_t hi, int64_t lo) {
  const int64_t h = hi + (lo >> 7), l = lo & 127;
  if (std::llabs(h) < 1 << 24) return num::i2f(static_cast<int32_t>(128 * h + l));
  if (std::llabs(h) < 1 << 25) return 2.0f * num::i2f(static_cast<int32_t>((h << 6) | (l >> 1) | (l & 1)));
  return 128.0f * num::i2f(static_cast<int32_t>(h | (l != 0)));
}

TEST_F(ContractNumbers, PlanesToFloat) {
  num::PhiloxStream random(2);
  int64_t small_fused = 0, odd = 0, two_steps = 0, large_fused = 0, samples = 0;
  for (int bits = 10; bits <= 31; ++bits) {
    for (int i = 0; i < 50000; ++i) {
      const int64_t hi = static_cast<int32_t>(random.next()) >> (32 - bits),
                    lo = static_cast<int32_t>(random.next()) >> (32 - std::min(bits, 24));
      const float want = num::i2f(128 * hi + lo), fused = std::fma(128.0f, num::i2f(hi), num::i2f(lo));
      odd += by_round_to_odd(hi, lo) != want;
      two_steps += static_cast<float>(static_cast<double>(128 * hi + lo)) != want;
      (std::llabs(hi) <= 1 << 24 && std::llabs(lo) <= 1 << 24 ? small_fused : large_fused) += fused != want;
      samples += std::llabs(hi) > 1 << 24;
    }
  }
  EXPECT_EQ(small_fused, 0);
  EXPECT_EQ(odd, 0);
  EXPECT_EQ(two_steps, 0) << "sums stay below 2^53";
  EXPECT_EQ(large_fused, 62918);
  EXPECT_EQ(samples, 250860);
}

TEST_F(ContractNumbers, SiluIsTheNearestBf16AndAReciprocalGivesTheSame) {
  int differing = 0, not_nearest = 0;
  for (uint32_t b = 0; b < 65536; ++b) {
    const auto gate = static_cast<uint16_t>(b);
    const float g = bf16_to_float(gate);
    differing += float_to_bf16(g * (1.0f / (1.0f + num::exp2_5(-g * num::kLog2E)))) != silu_mul::silu(gate);
    const float exact = static_cast<float>(static_cast<double>(g) / (1.0 + std::exp(-static_cast<double>(g))));
    not_nearest += !num::is_nan(g) && std::fabs(g) < 80 && float_to_bf16(exact) != silu_mul::silu(gate);
  }
  EXPECT_EQ(differing, 0);
  EXPECT_EQ(not_nearest, 0) << "between -80 and 80 the rule gives the nearest bf16";
}

TEST_F(ContractNumbers, SiluOfGatesBelowTheClamp) {
  float worst = 0;
  for (uint16_t b = 0xC2AE; b <= num::kLinearRange.max_bits + 0x8000; ++b)
    worst = std::min(worst, bf16_to_float(silu_mul::silu(b)));
  EXPECT_EQ(worst, -0x1p-30f) << "gates down to -2^96; the exact value is 0 to many places";
}

TEST_F(ContractNumbers, ContractionOfRope) {
  int64_t differing = 0, pairs = 0;
  num::PhiloxStream random(3);
  for (const uint32_t position : {1u, 22u, 355u, 2047u, 131071u}) {
    const num::SinCosBf16 e = num::sincos_bf16(position, conformance::random_scale(random, -18, -1));
    const float c = bf16_to_float(e.cos), s = bf16_to_float(e.sin);
    for (uint32_t b = 0; b < 65536; ++b) {
      const float x1 = bf16_to_float(static_cast<uint16_t>(b)), x2 = bf16_to_float(static_cast<uint16_t>(b * 40503u ^ 0x1234));
      const rope::Pair y = rope::rotate(static_cast<uint16_t>(b), float_to_bf16(x2), e.cos, e.sin);
      differing += float_to_bf16(std::fma(x1, c, -(x2 * s))) != y.first;
      differing += float_to_bf16(std::fma(x2, c, x1 * s)) != y.second;
      pairs += 2;
    }
  }
  EXPECT_EQ(differing, 0) << "of " << pairs;
}

// Sums that the contract says fit.
static_assert(int64_t{133144} * 127 * 127 <= INT32_MAX && int64_t{133145} * 127 * 127 > INT32_MAX, "one s8 plane in int32");
static_assert(int64_t{264208} * 64 * 127 <= INT32_MAX && int64_t{264209} * 64 * 127 > INT32_MAX, "a low plane in int32");
static_assert(int64_t{1040} * 16256 * 127 <= INT32_MAX && int64_t{1041} * 16256 * 127 > INT32_MAX, "both planes in int32");
static_assert(int64_t{520} * 2 * 16256 * 127 <= INT32_MAX && int64_t{521} * 2 * 16256 * 127 > INT32_MAX,
              "vpmaddwd: two products a step");
static_assert(linear_s8::kMaxK * 127 * 127 <= INT32_MAX);
static_assert(linear_s8::kMaxK * 16256 * 127 < int64_t{1} << 53, "exact in binary64");
static_assert(attention::kMaxD * 16256 * 127 <= INT32_MAX, "Q15 * K8");
static_assert(attention::kMaxD * (128 * 127 * 127 + 2 * 127 * 64) <= INT32_MAX, "Q15 * K15 without the low product");
static_assert(attention::kBlock * 16256 * 127 < 1 << 28, "A");
static_assert(attention::kBlock * 16256 < 1 << 24, "B is exact in binary32");

}  // namespace
}  // namespace zeroulp::ops
