#include "engine/any_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "golden_lines.h"
#include "io/temporary_folder.h"
#include "model/seeded.h"

namespace zeroulp::engine {
namespace {

std::vector<int32_t> some_tokens(size_t count, int32_t vocab) {
  std::vector<int32_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>((i * 7919 + i / 3) % static_cast<size_t>(vocab));
  return out;
}

AnyModel open(const std::filesystem::path& folder, int threads, int64_t positions) {
  auto model = AnyModel::open(folder, {.threads = threads, .positions = positions});
  if (!model) throw std::runtime_error(model.error().text);
  return std::move(*model);
}

// What decode() hands out, row by row, is what source() answers.
void expect_source_equals_decode(AnyModel& model, const std::vector<int32_t>& tokens) {
  const LogitsSource source = model.source();
  ASSERT_TRUE(source.start(tokens));
  int64_t rows = 0;
  ASSERT_TRUE(model.decode()(tokens, [&](const LogitsBlock& block) -> Status {
    EXPECT_EQ(block.first_position, rows);
    const float* again = source.rows(block.first_position, block.rows);
    for (int64_t r = 0; r < block.rows; ++r)
      EXPECT_EQ(std::memcmp(again + r * model.config().vocab, block.row(r), static_cast<size_t>(model.config().vocab) * sizeof(float)), 0);
    rows += block.rows;
    return {};
  }));
  EXPECT_EQ(rows, static_cast<int64_t>(tokens.size()));
}

TEST(AnyModel, AQuantisedFolderOverSeveralPasses) {
  const TemporaryFolder folder;
  ASSERT_TRUE(model::make_seeded({}, 1).save(folder.path()));
  AnyModel model = open(folder.path(), 2, 300);
  EXPECT_TRUE(model.quantized());
  EXPECT_EQ(model.identity().size(), 64u);
  const auto tokens = some_tokens(300, static_cast<int32_t>(model.config().vocab));
  expect_source_equals_decode(model, tokens);

  // Against itself, loaded again with other threads: equal in every figure.
  AnyModel other = open(folder.path(), 3, 150);
  ThreadPool pool(2);
  QualityJob job{{tokens, 150, std::nullopt}, model.config().vocab, model.decode(), other.source(), nullptr};
  const auto quality = measure_quality(job, *ops::select_kernels("", cpu_features()), pool);
  ASSERT_TRUE(quality) << quality.error().text;
  EXPECT_EQ(quality->windows, 2);
  EXPECT_EQ(quality->nll_q24, quality->reference_nll_q24);
  EXPECT_EQ(quality->kl.value, 0);
  EXPECT_EQ(quality->top1.value, 1);
}

TEST(AnyModel, AFloatFolder) {
  AnyModel model = open(golden_folder() / "tiny/qwen3", 2, 100);
  EXPECT_FALSE(model.quantized());
  EXPECT_EQ(model.kind(), "bf16");
  EXPECT_TRUE(model.recipe().is_null());
  expect_source_equals_decode(model, some_tokens(100, static_cast<int32_t>(model.config().vocab)));
}

TEST(AnyModel, RefusesWhatItCannotRun) {
  const auto missing = AnyModel::open("/nonexistent/model", {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ExitCode::kBadInput);
  const auto narrow = AnyModel::open(golden_folder() / "tiny/qwen3", {.positions = 1025});
  ASSERT_FALSE(narrow);
  EXPECT_NE(narrow.error().text.find("1024 positions"), std::string::npos) << narrow.error().text;
}

TEST(Calibration, OverlapIsRefused) {
  const io::Json recipe = {{"calibration", {{"text_sha256", "ab"}, {"first_token", 100}, {"tokens", 50}, {"window", 10}}}};
  const auto code = [&](const char* sha, int64_t first, int64_t count) {
    const Status s = refuse_calibration_overlap(recipe, sha, first, count);
    return s ? 0 : static_cast<int>(s.error().code);
  };
  EXPECT_EQ(code("ab", 0, 100), 0);
  EXPECT_EQ(code("ab", 0, 101), 3);
  EXPECT_EQ(code("ab", 149, 10), 3);
  EXPECT_EQ(code("ab", 150, 10), 0);
  EXPECT_EQ(code("ab", 0, 1000), 3);
  EXPECT_EQ(code("cd", 0, 1000), 0) << "another text";
  EXPECT_TRUE(refuse_calibration_overlap(nullptr, "ab", 0, 1000)) << "a float model";
  EXPECT_TRUE(refuse_calibration_overlap({{"calibration", nullptr}}, "ab", 0, 1000)) << "a model without calibration";
  EXPECT_FALSE(refuse_calibration_overlap({{"calibration", {{"text_sha256", "ab"}}}}, "ab", 0, 1)) << "a recipe that hides the range";
}

}  // namespace
}  // namespace zeroulp::engine
