// The SIMD spellings of num's rules against num: every bf16 boundary, and binary32 inputs by stride over all bit patterns.
#include <gtest/gtest.h>

#include <vector>

#include "base/cpu.h"
#include "num/exp2.h"
#include "num/philox.h"
#include "num/round.h"
#include "ops/simd_avx2.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)
namespace zeroulp::ops {
namespace {

constexpr size_t kLanes = 16;
struct Lanes {
  uint32_t bf16[kLanes], exp3[kLanes], exp5[kLanes];
};

ZU_TARGET_AVX2 void run_avx2(const float* x, Lanes& out) {
  for (size_t i = 0; i < kLanes; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.bf16 + i), _mm256_cvtepu16_epi32(avx2::to_bf16(v)));
    _mm256_storeu_ps(reinterpret_cast<float*>(out.exp3 + i), avx2::exp2_3(v));
    _mm256_storeu_ps(reinterpret_cast<float*>(out.exp5 + i), avx2::exp2_5(v));
  }
}
ZU_TARGET_AVX512 void run_avx512(const float* x, Lanes& out) {
  const __m512 v = _mm512_loadu_ps(x);
  _mm512_storeu_si512(out.bf16, _mm512_cvtepu16_epi32(avx512::to_bf16(v)));
  _mm512_storeu_ps(out.exp3, avx512::exp2_3(v));
  _mm512_storeu_ps(out.exp5, avx512::exp2_5(v));
}

template <class Run>
void compare(Run run, const std::vector<float>& xs) {
  for (size_t at = 0; at + kLanes <= xs.size(); at += kLanes) {
    Lanes got;
    run(xs.data() + at, got);
    for (size_t i = 0; i < kLanes; ++i) {
      const float x = xs[at + i];
      ASSERT_EQ(got.bf16[i], num::float_to_bf16(x)) << std::hex << num::bits_of(x);
      if (num::is_nan(x)) continue;
      ASSERT_EQ(got.exp5[i], num::bits_of(num::exp2_5(x))) << std::hex << num::bits_of(x);
      if (x > 0) continue;
      ASSERT_EQ(got.exp3[i], num::bits_of(num::exp2_3(x))) << std::hex << num::bits_of(x);
    }
  }
}

std::vector<float> inputs() {
  std::vector<float> xs;
  for (uint32_t high = 0; high < 0x10000; ++high)  // every bf16 value, its ties and their neighbours, every kind of NaN
    for (uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu, 0x3000u, 0xC000u})
      xs.push_back(num::float_of((high << 16) | low));
  num::PhiloxStream random(1);
  for (int i = 0; i < 1 << 20; ++i) xs.push_back(random.symmetric() * 130.0f);   // where the exponentials do not saturate
  for (int i = -252; i <= 252; ++i) xs.push_back(static_cast<float>(i) * 0.5f);  // ties of the split
  while (xs.size() % kLanes != 0) xs.push_back(0);
  return xs;
}

TEST(Simd, Avx2SpellingsEqualNum) {
  if (!cpu_features().avx2) GTEST_SKIP() << "no AVX2 here";
  compare(run_avx2, inputs());
}
TEST(Simd, Avx512SpellingsEqualNum) {
  if (!cpu_features().avx512_vnni) GTEST_SKIP() << "no AVX-512 here";
  compare(run_avx512, inputs());
}

// 64-bit sums must reach binary32 with one rounding: values beside the ties of every binade from 2^24 to 2^40.
std::vector<int64_t> tie_integers() {
  std::vector<int64_t> values = {0, 1, -1, 16777216, 16777217, 16777219};
  for (int e = 24; e <= 40; ++e)
    for (int64_t odd : {0, 1, 2, 3})
      for (int64_t beside : {-1, 0, 1}) {
        const int64_t v = (int64_t{1} << e) + odd * (int64_t{1} << (e - 24)) + beside;
        values.push_back(v);
        values.push_back(-v);
      }
  while (values.size() % kLanes != 0) values.push_back(7);
  return values;
}
ZU_TARGET_AVX2 void i2f_avx2(const int64_t* v, float* out) {
  for (size_t i = 0; i < kLanes; i += 4)
    _mm_storeu_ps(out + i, avx2::i2f(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(v + i))));
}
ZU_TARGET_AVX512 void i2f_avx512(const int64_t* v, float* out) {
  alignas(64) int32_t high[kLanes], low[kLanes];
  for (size_t i = 0; i < kLanes; ++i) {
    high[i] = static_cast<int32_t>(v[i] >> 13);
    low[i] = static_cast<int32_t>(v[i] & 0x1FFF);
  }
  _mm512_storeu_ps(out, avx512::i2f_planes(_mm512_load_si512(high), _mm512_load_si512(low), 13));
}
template <class Run>
void compare_i2f(Run run) {
  const std::vector<int64_t> values = tie_integers();
  for (size_t at = 0; at < values.size(); at += kLanes) {
    float got[kLanes];
    run(values.data() + at, got);
    for (size_t i = 0; i < kLanes; ++i)
      ASSERT_EQ(num::bits_of(got[i]), num::bits_of(num::i2f(values[at + i]))) << values[at + i];
  }
}
TEST(Simd, WideIntegersRoundOnce) {
  if (cpu_features().avx2) compare_i2f(i2f_avx2);
  if (cpu_features().avx512_vnni) compare_i2f(i2f_avx512);
  if (!cpu_features().avx2) GTEST_SKIP() << "no AVX2 here";
}

TEST(Simd, PartsLeaveTheRestAlone) {
  if (!cpu_features().avx2) GTEST_SKIP() << "no AVX2 here";
  struct Run {
    ZU_TARGET_AVX2 static void avx2(const uint16_t* in, uint16_t* bf16, float* f32, int64_t count) {
      const __m256 v = avx2::load_bf16_part(in, count);
      avx2::store_bf16_part(bf16, v, count);
      avx2::store_part(f32, v, count);
    }
  };
  const uint16_t in[8] = {0x3F80, 0xBF80, 0x4000, 0x7F80, 0x0001, 0x8000, 0x4049, 0x3EAA};
  for (int64_t count = 0; count <= 8; ++count) {
    uint16_t bf16[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    float f32[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    Run::avx2(in, bf16, f32, count);
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(bf16[i], i < count ? in[i] : 9);
      EXPECT_EQ(num::bits_of(f32[i]), i < count ? uint32_t{in[i]} << 16 : num::bits_of(9.0f));
    }
  }
}

}  // namespace
}  // namespace zeroulp::ops
#else
TEST(Simd, Spellings) { GTEST_SKIP() << "not an x86-64 processor"; }
#endif
