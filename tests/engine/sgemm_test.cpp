#include "engine/sgemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "num/bf16.h"

namespace zeroulp::engine {
namespace {

std::vector<float> values(int64_t count, uint64_t seed, bool bf16) {
  std::vector<float> out(static_cast<size_t>(count));
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (float& v : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
    if (bf16) v = num::bf16_to_float(num::float_to_bf16(v));
  }
  return out;
}

// The order that the header states, written down plainly.
float element(const float* x, const float* w, int64_t k) {
  float total = 0;
  for (int64_t first = 0; first < k; first += kBlockK) {
    float sum = 0;
    for (int64_t i = first; i < std::min(k, first + kBlockK); ++i) sum = std::fma(x[i], w[i], sum);
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

struct Shape {
  int64_t m, n, k;
};

void check(Shape s, bool bf16, int threads) {
  const auto x = values(s.m * s.k, 1, false), w = values(s.n * s.k, 2, bf16);
  PackedMatrix packed(s.n, s.k, bf16);
  packed.set_rows(0, s.n / 2, w.data());
  packed.set_rows(s.n / 2, s.n - s.n / 2, w.data() + s.n / 2 * s.k);
  ThreadPool pool(threads);
  PackedRows rows;
  rows.pack(pool, x.data(), s.m, s.k, s.k);
  std::vector<float> y(static_cast<size_t>(s.m * s.n), NAN);
  sgemm(pool, rows, packed.panels(), y.data(), s.n);
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      const float expected = element(x.data() + i * s.k, w.data() + j * s.k, s.k);
      ASSERT_EQ(std::bit_cast<uint32_t>(y[static_cast<size_t>(i * s.n + j)]), std::bit_cast<uint32_t>(expected))
          << s.m << " x " << s.n << " x " << s.k << " at " << i << ", " << j;
    }
}

TEST(Sgemm, EqualsThePlainOrderBitForBit) {
  for (const Shape s : {Shape{1, 1, 1}, {1, 33, 300}, {2, 16, 256}, {5, 17, 257}, {12, 32, 64}, {13, 48, 513}, {25, 100, 700}, {37, 15, 31}})
    for (const bool bf16 : {false, true})
      for (const int threads : {1, 2, 3}) check(s, bf16, threads);
}

TEST(Sgemm, IsTheSameAtEveryWidth) {
  const int64_t m = 31, n = 70, k = 530;
  const auto x = values(m * k, 5, false), w = values(n * k, 6, true);
  PackedMatrix packed(n, k, true);
  packed.set_rows(0, n, w.data());
  PackedRows rows;
  rows.pack(x.data(), m, k, k);
  std::vector<float> plain(static_cast<size_t>(m * n)), wide(plain.size());
  sgemm(rows, packed.panels(), 0, 5, plain.data(), n, Width::kPlain);
  int compared = 0;
  for (const Width width : {Width::kAvx2, Width::kAvx512}) {
    if (width > widest()) continue;
    sgemm(rows, packed.panels(), 0, 5, wide.data(), n, width);
    EXPECT_EQ(std::memcmp(plain.data(), wide.data(), plain.size() * sizeof(float)), 0);
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
}

TEST(Sgemm, ReadsRowsBack) {
  const auto w = values(40 * 9, 3, true);
  for (const bool bf16 : {false, true}) {
    PackedMatrix packed(40, 9, bf16);
    packed.set_rows(0, 40, w.data());
    std::vector<float> row(9);
    for (int64_t j = 0; j < 40; ++j) {
      packed.row(j, row.data());
      EXPECT_EQ(std::memcmp(row.data(), w.data() + j * 9, sizeof(float) * 9), 0);
    }
  }
}

}  // namespace
}  // namespace zeroulp::engine
