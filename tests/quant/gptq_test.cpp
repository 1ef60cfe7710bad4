#include "quant/gptq.h"

#include <gtest/gtest.h>

#include <cmath>

#include "num/bf16.h"
#include "num/calibration.h"
#include "num/philox.h"

namespace zeroulp::quant {
namespace {

// Inputs of `k` channels that lean on `factors` common causes (0: independent), with channel sizes over several binades.
std::vector<uint16_t> inputs(int64_t rows, int64_t k, int factors, uint64_t seed) {
  num::PhiloxStream random(seed);
  std::vector<float> mix(static_cast<size_t>(factors * k));
  for (float& m : mix) m = random.symmetric();
  std::vector<uint16_t> x;
  for (int64_t t = 0; t < rows; ++t) {
    std::vector<float> cause(static_cast<size_t>(factors));
    for (float& c : cause) c = 4 * random.symmetric();
    for (int64_t j = 0; j < k; ++j) {
      float v = random.symmetric();
      for (int f = 0; f < factors; ++f) v += cause[static_cast<size_t>(f)] * mix[static_cast<size_t>(f * k + j)];
      x.push_back(num::float_to_bf16(v * num::pow2(static_cast<int>(j % 7) - 3)));
    }
  }
  return x;
}

FloatLinear random_linear(int64_t n, int64_t k, uint64_t seed) {
  num::PhiloxStream random(seed);
  FloatLinear l;
  l.n = n, l.k = k;
  for (int64_t i = 0; i < n * k; ++i) l.weights.push_back(0.1f * random.symmetric());
  return l;
}

TEST(Hessian, IsTheExactSumInIntegers) {
  ThreadPool one(1), three(3);
  for (const int64_t k : {1, 16, 23, 64}) {
    const auto x = inputs(301, k, 2, 5);
    const auto exponents = fixed_point_exponents(channel_maxima(input_rows(x, k), one));
    auto h = hessian_of(input_rows(x, k), one);
    ASSERT_TRUE(h);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        const auto a = static_cast<size_t>(h->order[static_cast<size_t>(i)]), b = static_cast<size_t>(h->order[static_cast<size_t>(j)]);
        __int128 sum = 0;
        for (size_t t = 0; t < x.size(); t += static_cast<size_t>(k))
          sum += static_cast<__int128>(num::fixed_point(num::bf16_to_float(x[t + a]), exponents[a])) *
                 num::fixed_point(num::bf16_to_float(x[t + b]), exponents[b]);
        ASSERT_EQ(h->matrix.row(i)[j], std::ldexp(static_cast<double>(static_cast<int64_t>(sum)), -exponents[a] - exponents[b]));
      }
    // Backwards and on three threads: the same bits.
    std::vector<uint16_t> backwards;
    for (int64_t t = 300; t >= 0; --t) backwards.insert(backwards.end(), x.begin() + t * k, x.begin() + (t + 1) * k);
    auto other = hessian_of(input_rows(backwards, k), three);
    ASSERT_TRUE(other);
    EXPECT_EQ(h->order, other->order);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j <= i; ++j) ASSERT_EQ(h->matrix.row(i)[j], other->matrix.row(i)[j]);
  }
}

TEST(Hessian, FixedPointUsesAllBitsAndNeverMore) {
  for (const float a : {1.0f, 1.984375f, 0x1.fffffep0f, 3.0f, 0x1p-30f, 0x1.fep127f, 0x1p-133f}) {
    const int exponent = fixed_point_exponents(std::vector{a})[0];
    const int32_t code = num::fixed_point(a, exponent);
    EXPECT_LT(code, 1 << num::kFixedBits) << a;
    if (a >= 0x1p-126f) {
      EXPECT_GE(code, 1 << (num::kFixedBits - 1)) << a;
    }
  }
  EXPECT_EQ(fixed_point_exponents(std::vector{0.0f})[0], 0);
}

TEST(Dense, CholeskyIsAFactorisationAndThreadsMoveNoBit) {
  ThreadPool one(1), three(3);
  for (const int64_t n : {1, 15, 16, 17, 127, 128, 129, 300}) {
    LowerMatrix m(n), copy(n);
    num::PhiloxStream random(static_cast<uint64_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) m.row(i)[j] = random.symmetric();
      m.row(i)[i] = static_cast<double>(n) + 1;
    }
    copy = m;
    LowerMatrix l = m;
    ASSERT_TRUE(cholesky(one, l));
    ASSERT_TRUE(cholesky(three, copy));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        ASSERT_EQ(l.row(i)[j], copy.row(i)[j]);
        long double sum = 0;
        for (int64_t t = 0; t <= j; ++t) sum += static_cast<long double>(l.row(i)[t]) * l.row(j)[t];
        ASSERT_NEAR(static_cast<double>(sum), m.row(i)[j], 1e-11 * static_cast<double>(n));
      }
  }
}

TEST(Dense, CholeskyNoticesWhatIsNotPositive) {
  ThreadPool pool(1);
  LowerMatrix m(3);
  m.row(0)[0] = 1, m.row(1)[0] = 2, m.row(1)[1] = 1, m.row(2)[2] = 1;
  EXPECT_FALSE(cholesky(pool, m));
}

TEST(Dense, TilesOfEveryWidthAreThePlainSum) {
  num::PhiloxStream random(3);
  for (const int64_t depth : {0, 1, 2, 7, 128}) {
    std::vector<double> a(static_cast<size_t>(depth * kPanel)), b(a.size());
    for (double& v : a) v = random.symmetric();
    for (double& v : b) v = random.symmetric();
    for (const engine::Width width : {engine::Width::kPlain, engine::Width::kAvx2, engine::Width::kAvx512}) {
      if (width > engine::widest()) continue;
      double tile[kPanel * kPanel];
      product_tile(a.data(), b.data(), depth, tile, width);
      for (int64_t r = 0; r < kPanel; ++r)
        for (int64_t c = 0; c < kPanel; ++c) {
          double sum = 0;
          for (int64_t t = 0; t < depth; ++t) sum += a[static_cast<size_t>(t * kPanel + r)] * b[static_cast<size_t>(t * kPanel + c)];
          ASSERT_EQ(tile[r * kPanel + c], sum) << "not one product and one sum after another";
        }
    }
  }
}

// GPTQ as its authors write it, on one row: columns in order, the inverse Hessian's Cholesky factor, every column updated at once.
std::vector<int8_t> plain_gptq(const FloatLinear& weights, int64_t row, float scale, const Hessian& hessian) {
  const auto k = static_cast<size_t>(weights.k);
  const auto channel = [&](size_t i) { return static_cast<size_t>(hessian.order[k - 1 - i]); };  // largest first
  using Matrix = std::vector<std::vector<long double>>;
  Matrix h(k, std::vector<long double>(k)), inverse(k, std::vector<long double>(k));
  long double trace = 0;
  for (size_t i = 0; i < k; ++i) trace += hessian.matrix.row(static_cast<int64_t>(i))[i];
  for (size_t i = 0; i < k; ++i)
    for (size_t j = 0; j < k; ++j) {
      const size_t a = k - 1 - i, b = k - 1 - j;
      h[i][j] = hessian.matrix.row(static_cast<int64_t>(std::max(a, b)))[std::min(a, b)] + (i == j ? 0.01L * trace / static_cast<long double>(k) : 0.0L);
      inverse[i][j] = i == j;
    }
  for (size_t c = 0; c < k; ++c) {  // Gauss-Jordan without pivoting: h is positive definite
    const long double pivot = h[c][c];
    for (size_t j = 0; j < k; ++j) h[c][j] /= pivot, inverse[c][j] /= pivot;
    for (size_t i = 0; i < k; ++i) {
      const long double f = h[i][c];
      if (i == c || f == 0) continue;
      for (size_t j = 0; j < k; ++j) h[i][j] -= f * h[c][j], inverse[i][j] -= f * inverse[c][j];
    }
  }
  Matrix u(k, std::vector<long double>(k));  // upper: inverse = u^T u
  for (size_t i = 0; i < k; ++i)
    for (size_t j = i; j < k; ++j) {
      long double sum = inverse[i][j];
      for (size_t t = 0; t < i; ++t) sum -= u[t][i] * u[t][j];
      u[i][j] = i == j ? std::sqrt(sum) : sum / u[i][i];
    }
  std::vector<long double> w;
  for (size_t i = 0; i < k; ++i) w.push_back(weights.row(row)[channel(i)]);
  std::vector<int8_t> codes(k);
  for (size_t i = 0; i < k; ++i) {
    const long double q = std::clamp(std::nearbyint(w[i] / scale), -127.0L, 127.0L);
    codes[channel(i)] = static_cast<int8_t>(q);
    const long double e = (w[i] - q * scale) / u[i][i];
    for (size_t j = i; j < k; ++j) w[j] -= e * u[i][j];
  }
  return codes;
}

TEST(Gptq, EqualsThePlainAlgorithm) {
  ThreadPool pool(1);
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{3, 8}, {17, 40}, {16, 150}}) {
    const auto x = inputs(400, k, 3, 11);
    const FloatLinear weights = random_linear(n, k, 12);
    auto coded = round_linear(weights, num::ScaleRule::kCeil, "w", pool);
    ASSERT_TRUE(coded);
    auto h = hessian_of(input_rows(x, k), pool);
    ASSERT_TRUE(h);
    const Hessian kept = *h;
    GptqBasis::factor(*std::move(h), pool).round(weights, *coded, pool);
    int different = 0;
    for (int64_t row = 0; row < n; ++row) {
      const auto plain = plain_gptq(weights, row, coded->scales[static_cast<size_t>(row)], kept);
      for (int64_t j = 0; j < k; ++j) different += plain[static_cast<size_t>(j)] != coded->codes[static_cast<size_t>(row * k + j)];
    }
    EXPECT_EQ(different, 0);
  }
}

TEST(Gptq, LowersTheErrorThatInputsWeigh) {
  ThreadPool pool(2);
  for (const int factors : {0, 1, 8}) {
    for (const num::ScaleRule rule : {num::ScaleRule::kFree, num::ScaleRule::kCeil}) {
      const int64_t n = 20, k = 200;
      const auto x = inputs(1000, k, factors, 21);
      const FloatLinear weights = random_linear(n, k, 22);
      auto coded = round_linear(weights, rule, "w", pool);
      auto h = hessian_of(input_rows(x, k), pool);
      ASSERT_TRUE(h && coded);
      const double before = weighted_error(weights, *coded, *h);
      const Hessian kept = *h;
      GptqBasis::factor(*std::move(h), pool).round(weights, *coded, pool);
      const double after = weighted_error(weights, *coded, kept);
      EXPECT_LT(after, factors == 0 ? before : 0.5 * before) << factors;
    }
  }
}

TEST(Gptq, ThreadsMoveNoCode) {
  const int64_t n = 100, k = 290;
  const auto x = inputs(500, k, 4, 31);
  const FloatLinear weights = random_linear(n, k, 32);
  std::vector<int8_t> codes[2];
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    auto coded = choose_scales(weights, num::ScaleRule::kFree, "w", pool);
    auto h = hessian_of(input_rows(x, k), pool);
    ASSERT_TRUE(h && coded);
    GptqBasis::factor(*std::move(h), pool).round(weights, *coded, pool);
    codes[threads == 3] = coded->codes;
  }
  EXPECT_EQ(codes[0], codes[1]);
}

TEST(Gptq, SilentInputsGiveNearestCodes) {
  ThreadPool pool(1);
  const FloatLinear weights = random_linear(5, 33, 41);
  auto nearest = round_linear(weights, num::ScaleRule::kFree, "w", pool);
  auto coded = nearest;
  const std::vector<uint16_t> zeros(33 * 10);
  auto h = hessian_of(input_rows(zeros, 33), pool);
  ASSERT_TRUE(h && coded);
  GptqBasis::factor(*std::move(h), pool).round(weights, *coded, pool);
  EXPECT_EQ(coded->codes, nearest->codes);
}

}  // namespace
}  // namespace zeroulp::quant
