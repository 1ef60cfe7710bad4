// The scalar rules against independent ones: exact arithmetic in wider types, the published sentences of the contract.
#include <gtest/gtest.h>

#include <cmath>

#include "base/fp_env.h"
#include "ops/argmax/reference.h"
#include "ops/case_inputs.h"
#include "ops/kernels.h"
#include "ops/nll/reference.h"
#include "ops/quant_rows/reference.h"
#include "ops/rmsnorm/reference.h"

namespace zeroulp::ops {
namespace {

using num::bf16_to_float;
using num::float_to_bf16;

class Rules : public testing::Test {
 private:
  FpEnvScope fp_env_;
};

// The integer sum of squares against 128-bit arithmetic: each term loses less than one unit of 2^-40 of the largest power.
TEST_F(Rules, RmsNormSumIsWithinItsBound) {
  num::PhiloxStream random(21);
  for (int i = 0; i < 2000; ++i) {
    const auto d = static_cast<int64_t>(1 + random.below(300));
    const auto x = conformance::random_bf16s(random, d, 100, 150);
    int e_max = 1;
    for (const uint16_t v : x) e_max = std::max(e_max, rmsnorm::exponent_of(v));
    int64_t sum = 0;
    long double exact = 0, largest = 0;
    for (const uint16_t v : x) {
      sum += rmsnorm::square_term(v, e_max);
      const long double square = static_cast<long double>(bf16_to_float(v)) * bf16_to_float(v);
      exact += square;
      largest = std::max(largest, square);
    }
    const long double got = std::ldexp(static_cast<long double>(sum), 2 * (e_max - 134) - 26);
    ASSERT_LE(got, exact);
    ASSERT_LE(exact - got, static_cast<long double>(d) * std::ldexp(largest, -40));
  }
}

TEST_F(Rules, RmsNormIsAccurate) {
  num::PhiloxStream random(22);
  double worst = 0;
  for (int i = 0; i < 300; ++i) {
    const int64_t d = 576;
    const auto x = conformance::bell_bf16s(random, d, 2.0f);
    int e_max = 1;
    for (const uint16_t v : x) e_max = std::max(e_max, rmsnorm::exponent_of(v));
    int64_t sum = 0;
    double exact = 0;
    for (const uint16_t v : x) {
      sum += rmsnorm::square_term(v, e_max);
      exact += static_cast<double>(bf16_to_float(v)) * bf16_to_float(v);
    }
    const double want = 1.0 / std::sqrt(exact / static_cast<double>(d) + 1e-5f);
    worst = std::max(worst, std::fabs(rmsnorm::reciprocal_rms(sum, e_max, d, 1e-5f) / want - 1));
  }
  EXPECT_LT(worst, 1.5e-7);
}

TEST_F(Rules, RmsNormNeverTurnsAFaultIntoZeros) {
  for (const uint16_t bad : {0x7F80, 0xFF80, 0x7FC0, 0x7F7F, 0x6000}) {
    std::vector<uint16_t> x(40, 0x3F80), w(40, 0x3F80), y(40);
    x[13] = static_cast<uint16_t>(bad);
    rmsnorm::reference({x.data(), 40, 1, 40, w.data(), 1e-5f, y.data(), 40});
    for (const uint16_t v : y) EXPECT_EQ(v, num::kBf16Nan) << std::hex << bad;
  }
}

TEST_F(Rules, FaultedQuantiserRowsBecomeNan) {
  const std::vector<uint16_t> x = {0x3F80, 0x7F80, 0x3F80};
  int16_t codes[3];
  float scale = 0;
  uint8_t fault = 0;
  quant_rows::reference({x.data(), 3, 1, 3, 15, num::kLinearRange, nullptr, codes, 3, &scale, &fault});
  EXPECT_EQ(fault, 1);
  EXPECT_EQ(num::bits_of(scale), 0x7FC00000u);
  EXPECT_EQ(codes[0], 0);
  EXPECT_EQ(float_to_bf16(linear_s8::epilogue(0.0f, scale, 1.0f, nullptr)), num::kBf16Nan);
  const float bias = 2.0f;
  EXPECT_EQ(float_to_bf16(linear_s8::epilogue(0.0f, scale, 1.0f, &bias)), num::kBf16Nan);
}

// log2 against long double: truncated, so at most one unit below, and never above.
TEST_F(Rules, Log2IsTheTruncatedValue) {
  num::PhiloxStream random(23);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t v = (random.next64() >> random.below(64)) | 1;
    const long double exact = std::log2(static_cast<long double>(v)) * 16777216.0L;
    const auto got = static_cast<long double>(nll::log2_q24(v));
    ASSERT_LE(got, exact + 1e-6L) << v;
    ASSERT_GT(got, exact - 1.00001L) << v;
  }
}

TEST_F(Rules, NllIsAccurate) {
  num::PhiloxStream random(24);
  double worst = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits(2000);
    for (float& l : logits) l = conformance::bell(random, 4.0f);
    const auto target = static_cast<int64_t>(random.below(2000));
    nll::Args a{logits.data(), 2000, target};
    nll::reference(a);
    double sum = 0;
    for (const float l : logits) sum += std::exp(static_cast<double>(l) - logits[static_cast<size_t>(target)]);
    worst = std::max(worst, std::fabs(static_cast<double>(a.result) * 0x1p-24 - std::log2(sum)) / (1 + std::log2(sum)));
  }
  EXPECT_LT(worst, 4e-7) << "of one bit and the result";
}

TEST_F(Rules, NllEdges) {
  const std::vector<float> one = {5.0f}, two = {0.0f, 0.0f}, far = {4e6f, 0.0f};
  nll::Args a{one.data(), 1, 0};
  nll::reference(a);
  EXPECT_EQ(a.result, 0);
  nll::Args b{two.data(), 2, 1};
  nll::reference(b);
  EXPECT_EQ(b.result, 1 << 24) << "one bit";
  nll::Args c{far.data(), 2, 1};
  nll::reference(c);
  EXPECT_EQ(c.result, -1) << "2^22 bits and more is a range error";
}

// exp2_5 never exceeds 1 for arguments that are not positive: no term of nll or of sampling passes its unit.
TEST_F(Rules, Exp2StaysBelowOne) {
  for (uint32_t b = 0x80000000u; b < 0xC3000000u; b += 61) {
    ASSERT_LE(num::exp2_5(num::float_of(b)), 1.0f) << std::hex << b;
    ASSERT_LE(num::exp2_3(num::float_of(b)), 1.0f) << std::hex << b;
  }
}

TEST_F(Rules, SelectionNamesWhatRan) {
  const CpuFeatures plain;
  const auto slow = select_kernels("", plain);
  ASSERT_TRUE(slow);
  for (const std::string& name : slow->names()) EXPECT_NE(name.find("=reference"), std::string::npos);
  const auto missing = select_kernels("avx2", plain);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ExitCode::kUnavailable);
  CpuFeatures wide;
  wide.avx2 = wide.avx512_vnni = wide.amx_int8 = true;
  const auto tiles = select_kernels("amx_int8", wide);
  ASSERT_TRUE(tiles);
  EXPECT_EQ(tiles->linear_s8.name, "amx_int8");
  EXPECT_EQ(tiles->argmax.name, "avx512_vnni") << "an op without the variant takes the fastest that needs no more";
  EXPECT_EQ(select_kernels("avx2", wide)->linear_s8.name, "avx2");
  wide.amx_int8 = false;
  EXPECT_NE(select_kernels("amx_int8", wide).error().text.find("AMX"), std::string::npos);
  EXPECT_EQ(select_kernels("sse9", cpu_features()).error().code, ExitCode::kUsage);
  EXPECT_EQ(select_kernels("nosuchop=reference", cpu_features()).error().code, ExitCode::kUsage);
}

}  // namespace
}  // namespace zeroulp::ops
