// The catalogue, the proofs of what cannot change a bit, and a whole study of a tiny model.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fp_env.h"
#include "ops/mutants/mutants.h"
#include "ops/quant_rows/reference.h"
#include "verify/faults/study_report.h"
#include "verify/tiny.h"

namespace zeroulp::verify {
namespace {

namespace fs = std::filesystem;

TEST(Faults, TheCatalogueIsWholeAndEveryFaultHasItsKernel) {
  EXPECT_GE(faults().size(), 25u);
  std::set<std::string_view> names;
  std::set<FaultClass> classes;
  for (const Fault& f : faults()) {
    EXPECT_TRUE(names.insert(f.name).second) << f.name << " stands twice";
    classes.insert(f.fault_class);
    EXPECT_EQ(f.predicted[0], 'x') << f.name << ": a fault that equality does not reject is no fault";
    ops::Kernels kernels;
    inject(f, kernels);  // ends the program when there is no such mutant
  }
  EXPECT_GE(classes.size(), 12u);
}

TEST(Faults, PredictionsDependOnBiasesAndProfile) {
  const Fault& f = *find_fault("scale-order");
  EXPECT_EQ(prediction(f, false, "w8a15-free")[1], 'x');
  EXPECT_EQ(prediction(f, false, "w8a8-po2")[1], '.');
  EXPECT_EQ(prediction(*find_fault("bias-lost"), false, "w8a15-free")[1], '.');
  EXPECT_EQ(prediction(*find_fault("bias-lost"), true, "w8a15-free")[1], 'x');
}

template <class Fn>
Fn* by_name(std::span<const ops::Variant<Fn>> table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& v) { return v.name == name; })->run;
}

// Every subnormal x beside the least and the largest magnitudes that a row may have, at both widths and in both ranges.
TEST(Faults, FlushingSubnormalsChangesNoCode) {
  const FpEnvScope fp;
  ops::quant_rows::Fn* flushed = by_name(ops::mutants::equivalents_of_quant_rows(), "subnormals flushed");
  for (const num::RowRange& range : {num::kLinearRange, num::kAttentionRange})
    for (const int width : {8, 15})
      for (const uint16_t top : {range.min_bits, uint16_t(range.min_bits + 1), uint16_t{0x3F80}, range.max_bits}) {
        std::vector<uint16_t> x = {top};
        for (uint16_t v = 1; v < 0x80; ++v) x.push_back(v), x.push_back(v | 0x8000);
        const auto k = static_cast<int64_t>(x.size());
        std::vector<int16_t> want(x.size()), got(x.size());
        float scales[2];
        uint8_t flags[2] = {};
        ops::quant_rows::reference({x.data(), k, 1, k, width, range, nullptr, want.data(), k, scales, flags});
        flushed({x.data(), k, 1, k, width, range, nullptr, got.data(), k, scales + 1, flags + 1});
        EXPECT_EQ(want, got) << width << " bits, largest " << top;
        EXPECT_EQ(scales[0], scales[1]);
        EXPECT_EQ(std::count(want.begin() + 1, want.end(), 0), k - 1) << "the argument: every subnormal has code 0";
      }
}

// All magnitudes of the range: ceil(log2(a / 127)) in fp32 is the least exponent that holds a. (For fp32 magnitudes it is not.)
TEST(Faults, LogarithmGivesTheLeastExponentForBf16) {
  for (uint32_t a = num::kAttentionRange.min_bits; a <= num::kAttentionRange.max_bits; ++a) {
    const float v = num::bf16_to_float(static_cast<uint16_t>(a));
    ASSERT_EQ(static_cast<int>(std::ceil(std::log2(v / 127.0f))), num::pow2_scale_exponent(static_cast<uint16_t>(a))) << a;
  }
}

class FaultStudy : public testing::Test {
 protected:
  FaultStudy() : folder_(fs::temp_directory_path() / ("zeroulp-faults-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    int32_t value = 1;
    for (int i = 0; i < 600; ++i) tokens_.push_back(value = (value * 37 + i) % 61);
  }
  ~FaultStudy() override { fs::remove_all(folder_); }

  Result<Study> run(std::vector<std::string> only) {
    StudyRequest r;
    r.model = &*model_;
    r.tokens = tokens_;
    r.text_name = "made";
    r.effort = effort_;
    r.threads = threads_;
    r.folder = folder_;
    r.only = std::move(only);
    return run_study(r, {});
  }

  fs::path folder_;
  std::vector<int32_t> tokens_;
  Result<model::QuantizedModel> model_ = tiny_model("qwen2");
  StudyEffort effort_ = StudyEffort::tiny();
  int threads_ = 1;
};

TEST_F(FaultStudy, GatesSeeWhatTheyShould) {
  const auto study = run({"scale-order", "truncated", "bias-lost", "first-rows-scale", "attention-page", "silu-library-exp", "argmax-last"});
  ASSERT_TRUE(study) << study.error().text;
  EXPECT_TRUE(study->holds());
  ASSERT_EQ(study->results.size(), 7u);
  const auto of = [&](std::string_view name) {
    return *std::find_if(study->results.begin(), study->results.end(), [&](const FaultResult& r) { return r.name == name; });
  };
  EXPECT_EQ(of("truncated").measured.substr(0, 3), "xx.") << "half of the outputs move by one spacing, none by more";
  EXPECT_GT(of("truncated").apart.spacings[1], of("truncated").apart.elements / 5);
  EXPECT_EQ(of("bias-lost").measured.substr(0, 4), "xxxx");
  EXPECT_EQ(of("first-rows-scale").measured.substr(0, 4), "xxxx");
  EXPECT_EQ(of("attention-page").measured[2], 'x') << "140 tokens reach the second page";
  EXPECT_EQ(of("silu-library-exp").apart.differing, 0) << "only the suite's gates beyond 80 tell them apart";
  EXPECT_EQ(of("argmax-last").measured.substr(2, 6), "------");
  for (const FaultResult& r : study->results) EXPECT_FALSE(r.suite_case.empty()) << r.name;
  const std::string table = kill_table(*study).text();
  EXPECT_NE(table.find("truncated"), std::string::npos);
  EXPECT_NE(to_page(*study, report::Report("faults").finished()).html().find("Kill matrix"), std::string::npos);
}

TEST_F(FaultStudy, TextIsNotAskedWhenOutputsAreEnough) {
  effort_ = StudyEffort::outputs_only();
  effort_.captured = 140;
  const auto study = run({"truncated"});
  ASSERT_TRUE(study) << study.error().text;
  EXPECT_EQ(study->results[0].measured, "xx......--");
  EXPECT_FALSE(study->missed(study->results[0], static_cast<size_t>(Gate::kTokens))) << "what was not asked is no miss";
}

TEST_F(FaultStudy, GoesOnWhereItWas) {
  ASSERT_TRUE(run({"truncated"}));
  const fs::path file = folder_ / "truncated.json";
  const auto written = fs::last_write_time(file);
  const auto again = run({"truncated", "half-away"});
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(fs::last_write_time(file), written);
  EXPECT_TRUE(fs::exists(folder_ / "half-away.json"));
  EXPECT_EQ(again->results.front().name, "truncated") << "the registry's order";
  EXPECT_GT(again->results.front().apart.differing, 0) << "read back";
}

TEST_F(FaultStudy, RefusesAFolderOfOtherRuns) {
  ASSERT_TRUE(run({"truncated"}));
  threads_ = 2;
  const auto other = run({"truncated"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ExitCode::kBadInput);
  EXPECT_NE(other.error().text.find("baseline.json"), std::string::npos);
}

TEST_F(FaultStudy, RefusesUnknownNamesAndBrokenFiles) {
  const auto unknown = run({"no-such-fault"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ExitCode::kUsage);
  ASSERT_TRUE(run({"truncated"}));
  nlohmann::json json = nlohmann::json::parse(std::ifstream(folder_ / "truncated.json"));
  json["measured"] = "xx";
  std::ofstream(folder_ / "truncated.json") << json.dump();
  const auto broken = run({"truncated"});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ExitCode::kBadInput);
  EXPECT_NE(broken.error().text.find("truncated.json"), std::string::npos);
}

}  // namespace
}  // namespace zeroulp::verify
