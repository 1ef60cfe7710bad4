// The epilogues of other stacks (ops/linear_s8/foreign.h) against the contract's.
#include "ops/linear_s8/foreign.h"

#include <gtest/gtest.h>

#include "num/philox.h"
#include "ops/case_inputs.h"

namespace zeroulp::ops::linear_s8 {
namespace {

struct Outputs {
  uint16_t bf16;
  float f32;
};

struct Sample {
  int32_t acc;
  float sa, sb, bias;

  Args args(bool with_bias, Output output, void* y) const {
    return {nullptr, 0, &sa, 1, 1, 8, nullptr, 0, 1, &sb, with_bias ? &bias : nullptr, output, y, 1};
  }
  Outputs contract(bool with_bias) const {
    Outputs o{};
    store(args(with_bias, Output::kBf16, &o.bf16), 0, 0, acc);
    store(args(false, Output::kF32, &o.f32), 0, 0, acc);
    return o;
  }
  Outputs foreign(EpilogueOrder order, bool with_bias) const {
    Outputs o{};
    foreign_store(order, args(with_bias, Output::kBf16, &o.bf16), 0, 0, acc);
    foreign_store(order, args(false, Output::kF32, &o.f32), 0, 0, acc);
    return o;
  }
};

Sample random_sample(num::PhiloxStream& random, bool power_of_two) {
  Sample s{};
  s.acc = static_cast<int32_t>(random.next() >> 8) - (1 << 23);
  s.sa = conformance::random_scale(random, -16, -6);
  s.sb = power_of_two ? num::pow2(static_cast<int>(random.below(12)) - 20) : conformance::random_scale(random, -14, -8);
  s.bias = conformance::bell(random, 0.5f);
  return s;
}

// How many of 100,000 samples differ between an order and the contract: bf16 outputs and fp32 outputs.
std::pair<int, int> differing(EpilogueOrder order, bool power_of_two, bool with_bias) {
  num::PhiloxStream random(120);
  int bf16 = 0, f32 = 0;
  for (int i = 0; i < 100000; ++i) {
    const Sample s = random_sample(random, power_of_two);
    const Outputs want = s.contract(with_bias), got = s.foreign(order, with_bias);
    bf16 += want.bf16 != got.bf16;
    f32 += num::bits_of(want.f32) != num::bits_of(got.f32);
  }
  return {bf16, f32};
}

TEST(Foreign, CutlassOrderIsTheContracts) {
  for (const bool power_of_two : {false, true})
    for (const bool with_bias : {false, true})
      EXPECT_EQ(differing(EpilogueOrder::kCutlass, power_of_two, with_bias), (std::pair{0, 0}));
}

TEST(Foreign, TritonOrderAgreesUnderPowersOfTwoOnly) {
  EXPECT_EQ(differing(EpilogueOrder::kTriton, true, false), (std::pair{0, 0}));
  const auto [bf16, f32] = differing(EpilogueOrder::kTriton, false, false);
  EXPECT_GT(f32, 30000) << "a third of all fp32 results (docs/contract.md, section 2)";
  EXPECT_LT(f32, 40000);
  EXPECT_LT(bf16, 10) << "a few in a million";
}

TEST(Foreign, TritonsBiasIsRoundedTwice) {
  EXPECT_GT(differing(EpilogueOrder::kTriton, true, true).first, 20000)
      << "a quarter of all outputs, with powers of two as well";
  // 257 needs nine bits: 256 in bf16; with the bias 1 the fused sum is 258 and the twice rounded one is 256 (a tie, to even).
  const Sample s{257, 1.0f, 1.0f, 1.0f};
  EXPECT_EQ(s.foreign(EpilogueOrder::kCutlass, true).bf16, num::float_to_bf16(258.0f));
  EXPECT_EQ(s.foreign(EpilogueOrder::kTriton, true).bf16, num::float_to_bf16(256.0f));
}

TEST(Foreign, PairsHaveBothKernels) {
  for (const ForeignPair& p : foreign_pairs()) {
    EXPECT_FALSE(p.name.empty());
    EXPECT_NE(p.cutlass.staged, nullptr);
    EXPECT_NE(p.triton.staged, nullptr);
    EXPECT_NE(p.cutlass.name, p.triton.name);
  }
  EXPECT_EQ(foreign_pairs().empty(), device_variants().empty())
      << "kernels with these epilogues are there when GPU kernels are";
}

}  // namespace
}  // namespace zeroulp::ops::linear_s8
