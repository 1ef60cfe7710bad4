#include "engine/quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/divergence.h"

namespace zeroulp::engine {
namespace {

// Uniform in [-1, 1), from a hash of its arguments.
float noise(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 1) * 0xC2B2AE3D27D4EB4Fu ^ (c + 1) * 0x165667B19E3779F9u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  return static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
}

std::vector<float> row_of(int64_t count, uint64_t seed, float spread) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = spread * noise(seed, i, 0);
  return out;
}

double plain_divergence(const std::vector<float>& r, const std::vector<float>& o) {
  long double zr = 0, zo = 0, kl = 0;
  for (const float v : r) zr += std::exp(static_cast<long double>(v));
  for (const float v : o) zo += std::exp(static_cast<long double>(v));
  for (size_t i = 0; i < r.size(); ++i) {
    const long double log_p = r[i] - std::log(zr), log_q = o[i] - std::log(zo);
    kl += std::exp(log_p) * (log_p - log_q);
  }
  return static_cast<double>(kl);
}

TEST(Divergence, AgreesWithExtendedPrecision) {
  for (const int64_t count : {1, 2, 15, 16, 17, 1000, 49152})
    for (const float spread : {0.0f, 1.0f, 12.0f, 30.0f}) {
      const auto r = row_of(count, 1, spread);
      auto o = r;
      for (size_t i = 0; i < o.size(); ++i) o[i] += 0.1f * noise(7, i, 3);
      EXPECT_NEAR(kl_divergence(r.data(), o.data(), count), plain_divergence(r, o), 3e-7) << count << " " << spread;
      EXPECT_EQ(kl_divergence(r.data(), r.data(), count), 0.0);
    }
}

TEST(Divergence, IgnoresAShiftOfAllLogits) {
  const auto r = row_of(1000, 2, 8.0f);
  auto o = r;
  for (float& v : o) v += 4.0f;
  EXPECT_NEAR(kl_divergence(r.data(), o.data(), 1000), 0.0, 1e-6);
}

constexpr int64_t kVocab = 50;

// Logits that depend on the tokens so far, `error` of noise on them, in blocks of `block` rows.
Decode model(float error, int64_t block) {
  return [=](std::span<const int32_t> tokens, const LogitsSink& sink) -> Status {
    std::vector<float> rows;
    for (size_t first = 0; first < tokens.size(); first += static_cast<size_t>(block)) {
      const size_t count = std::min(static_cast<size_t>(block), tokens.size() - first);
      rows.assign(count * (kVocab + 3), 1e30f);
      for (size_t i = 0; i < count; ++i)
        for (size_t j = 0; j < kVocab; ++j)
          rows[i * (kVocab + 3) + j] = 4 * noise(static_cast<uint64_t>(tokens[first + i]), j, 0) + error * noise(first + i, j, 1);
      ZU_TRY(sink({0, static_cast<int64_t>(first), static_cast<int64_t>(count), rows.data(), kVocab + 3}));
    }
    return {};
  };
}

std::vector<int32_t> some_tokens(size_t count) {
  std::vector<int32_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>((i * 7919 + i / 3) % kVocab);
  return out;
}

Quality measured(const QualityText& text, const Decode& candidate, const Decode& reference, int threads = 1) {
  QualityJob job{text, kVocab, candidate, std::nullopt, nullptr};
  if (reference) job.reference = stored_logits(reference, kVocab);
  ThreadPool pool(threads);
  auto result = measure_quality(job, *ops::select_kernels("", cpu_features()), pool);
  EXPECT_TRUE(result) << result.error().text;
  return *result;
}

TEST(Quality, PerplexityEqualsThePlainFormula) {
  const auto tokens = some_tokens(70);
  const Quality q = measured({tokens, 16, std::nullopt}, model(0, 5), nullptr);
  EXPECT_EQ(q.windows, 4);
  EXPECT_EQ(q.positions, 64);
  EXPECT_EQ(q.predicted, 60);
  double nll = 0;
  for (size_t i = 0; i < 64; ++i) {
    if (i % 16 == 15) continue;
    double z = 0;
    for (size_t j = 0; j < kVocab; ++j) z += std::exp(4.0 * noise(static_cast<uint64_t>(tokens[i]), j, 0));
    nll += std::log(z) - 4.0 * noise(static_cast<uint64_t>(tokens[i]), static_cast<uint64_t>(tokens[i + 1]), 0);
  }
  EXPECT_NEAR(q.perplexity, std::exp(nll / 60), 1e-4);
  EXPECT_FALSE(q.compared);
}

TEST(Quality, AModelAgainstItselfIsExactlyEqual) {
  const auto tokens = some_tokens(64);
  const Quality q = measured({tokens, 16, std::nullopt}, model(0, 5), model(0, 3));
  EXPECT_EQ(q.nll_q24, q.reference_nll_q24);
  EXPECT_EQ(q.perplexity_change.value, 0);
  EXPECT_EQ(q.kl.value, 0);
  EXPECT_EQ(q.top1.value, 1);
  EXPECT_EQ(*q.kl.high, 0);
}

TEST(Quality, DependsOnNeitherThreadsNorBlocks) {
  const auto tokens = some_tokens(100);
  const Quality a = measured({tokens, 25, std::nullopt}, model(0.3f, 25), model(0, 25), 1);
  EXPECT_GT(a.kl.value, 0.001);
  EXPECT_LT(a.top1.value, 1);
  EXPECT_LT(*a.kl.low, a.kl.value);
  EXPECT_GT(a.worst.kl, a.kl.value);
  for (const int threads : {1, 2, 3})
    for (const int64_t block : {1, 4, 7}) {
      const Quality b = measured({tokens, 25, std::nullopt}, model(0.3f, block), model(0, 2 * block), threads);
      EXPECT_EQ(a.nll_q24, b.nll_q24);
      EXPECT_EQ(a.kl.value, b.kl.value);
      EXPECT_EQ(a.kl.high, b.kl.high);
      EXPECT_EQ(a.top1_equal, b.top1_equal);
      EXPECT_EQ(a.worst.window, b.worst.window);
      EXPECT_EQ(a.worst.position, b.worst.position);
    }
}

TEST(Quality, AStartTokenOpensEveryWindow) {
  const auto tokens = some_tokens(40);
  const QualityText text{tokens, 16, 3};
  EXPECT_EQ(text.windows(), 2);
  EXPECT_EQ(text.tokens_used(), 30);
  const auto window = text.at(1);
  ASSERT_EQ(window.size(), 16u);
  EXPECT_EQ(window[0], 3);
  EXPECT_EQ(window[1], tokens[15]);
  const Quality q = measured(text, model(0, 4), nullptr);
  EXPECT_EQ(q.predicted, 30);
}

TEST(Quality, AShortTextIsOneWindowWithoutInterval) {
  const auto tokens = some_tokens(9);
  const Quality q = measured({tokens, 16, std::nullopt}, model(0.1f, 4), model(0, 4));
  EXPECT_EQ(q.windows, 1);
  EXPECT_EQ(q.predicted, 8);
  EXPECT_FALSE(q.kl.low.has_value());
}

TEST(Quality, ALogitThatIsNotFiniteIsAnAnswerNotANumber) {
  const auto tokens = some_tokens(16);
  const Decode broken = [](std::span<const int32_t> window, const LogitsSink& sink) -> Status {
    std::vector<float> rows(window.size() * kVocab, 1.0f);
    rows[5 * kVocab + 7] = NAN;
    return sink({0, 0, static_cast<int64_t>(window.size()), rows.data(), kVocab});
  };
  ThreadPool pool(1);
  const QualityJob job{{tokens, 16, std::nullopt}, kVocab, broken, std::nullopt, nullptr};
  const auto result = measure_quality(job, *ops::select_kernels("", cpu_features()), pool);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ExitCode::kAnswerIsNo);
  EXPECT_NE(result.error().text.find("position 5"), std::string::npos) << result.error().text;
}

TEST(Quality, NothingToMeasureIsNotSuccess) {
  const auto tokens = some_tokens(1);
  ThreadPool pool(1);
  const QualityJob job{{tokens, 16, std::nullopt}, kVocab, model(0, 4), std::nullopt, nullptr};
  const auto result = measure_quality(job, *ops::select_kernels("", cpu_features()), pool);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ExitCode::kUnavailable);
}

TEST(StudentT, KnownQuantiles) {
  EXPECT_NEAR(student_t_975(1), 12.7062, 1e-4);
  EXPECT_NEAR(student_t_975(10), 2.22814, 1e-4);
  EXPECT_NEAR(student_t_975(11), 2.200985, 1e-5);
  EXPECT_NEAR(student_t_975(30), 2.042272, 1e-6);
  EXPECT_NEAR(student_t_975(1000000), 1.959964, 1e-5);
}

}  // namespace
}  // namespace zeroulp::engine
