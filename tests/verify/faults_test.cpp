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
  std::string text_of(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The line of a refusal for bad input.
  std::string refusal(const std::vector<std::string>& only) {
    const auto study = run(only);
    if (study) return "taken";
    EXPECT_EQ(study.error().code, ExitCode::kBadInput);
    return study.error().text;
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
  effort_ = StudyEffort::tiny().outputs_only();
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

TEST_F(FaultStudy, RefusesUnknownNames) {
  const auto unknown = run({"no-such-fault"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ExitCode::kUsage);
}

TEST_F(FaultStudy, TheFileOfAnotherFaultIsNotTaken) {
  ASSERT_TRUE(run({"truncated"}));
  fs::copy_file(folder_ / "truncated.json", folder_ / "half-away.json");
  const fs::path file = folder_ / "half-away.json";
  EXPECT_EQ(refusal({"half-away"}), file.string() + ": is of another fault, \"truncated\"; remove it, and half-away is run again");
  fs::remove(file);
  EXPECT_TRUE(run({"half-away"}));
}

// What a full disk or a killed copy leaves.
TEST_F(FaultStudy, EmptyAndCutOffFilesAreNamedAsDamaged) {
  ASSERT_TRUE(run({"truncated"}));
  for (const char* name : {"truncated.json", "baseline.json"}) {
    const std::string whole = text_of(name), file = (folder_ / name).string();
    const auto becomes = [&](const std::string& text, const std::string& why) {
      std::ofstream(folder_ / name) << text;
      EXPECT_EQ(refusal({"truncated"}), file + ": damaged (" + why + "); remove it, and it is run again");
    };
    becomes("", "is empty (not a byte of JSON)");
    becomes("null", "null is not a JSON object");
    becomes("[]", "[] is not a JSON object");
    becomes("{}", "schema: is missing");
    for (const size_t bytes : {size_t{1}, size_t{40}, whole.size() / 2, whole.size() - 3}) {
      const std::string cut = whole.substr(0, bytes);
      becomes(cut, "the text ends at byte " + std::to_string(bytes) + ", before the JSON does");
    }
    std::ofstream(folder_ / name) << whole;
    EXPECT_TRUE(run({"truncated"})) << name;
  }
}

// Every value of a result replaced by others that cannot stand there. What is free text, or for people alone, may be any string or number.
TEST_F(FaultStudy, ValuesThatNobodyMeasuredAreRefused) {
  ASSERT_TRUE(run({"truncated", "argmax-last"}));
  int refused = 0;
  for (const std::string name : {"truncated", "argmax-last", "baseline"}) {
    const nlohmann::json whole = nlohmann::json::parse(text_of(name + ".json"));
    const nlohmann::json flat = whole.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      if (pointer.starts_with("/volatile")) continue;
      std::vector<nlohmann::json> wrong = {nullptr, nlohmann::json::array(), nlohmann::json::object(), true};
      if (value.is_number())
        wrong.insert(wrong.end(), {"1", -2, -1e300});
      else
        wrong.push_back(7);
      if (value.is_number_integer()) wrong.insert(wrong.end(), {1e300, 0.5, UINT64_MAX, int64_t{1} << 61});
      if (value.is_string() && pointer != "/suite_case" && pointer != "/outputs/first") wrong.insert(wrong.end(), {"?", "x"});
      for (const nlohmann::json& w : wrong) {
        if (w == whole[nlohmann::json::json_pointer(pointer)]) continue;
        nlohmann::json other = whole;
        other[nlohmann::json::json_pointer(pointer)] = w;
        std::ofstream(folder_ / (name + ".json")) << other.dump();
        const std::string line = refusal({"truncated", "argmax-last"});
        EXPECT_TRUE(line.starts_with((folder_ / (name + ".json")).string() + ": ")) << pointer << " " << w << ": " << line;
        EXPECT_EQ(line.find("json.exception"), line.npos) << line;
        EXPECT_EQ(line.find('\n'), line.npos) << line;
        ++refused;
      }
    }
    std::ofstream(folder_ / (name + ".json")) << whole.dump();
    EXPECT_TRUE(run({"truncated", "argmax-last"})) << name;
  }
  EXPECT_GT(refused, 500);
}

// Values that could stand there, and do not fit the others.
TEST_F(FaultStudy, ValuesThatContradictOthersAreRefused) {
  ASSERT_TRUE(run({"truncated"}));
  const auto changed = [&](const std::string& name, const std::string& pointer, const nlohmann::json& value, const std::string& why) {
    const std::string whole = text_of(name);
    nlohmann::json json = nlohmann::json::parse(whole);
    json[nlohmann::json::json_pointer(pointer)] = value;
    std::ofstream(folder_ / name) << json.dump();
    EXPECT_EQ(refusal({"truncated"}), (folder_ / name).string() + ": damaged (" + why + "); remove it, and it is run again");
    std::ofstream(folder_ / name) << whole;
  };
  const nlohmann::json json = nlohmann::json::parse(text_of("truncated.json"));
  const std::string measured = json["measured"];
  const int64_t elements = json["outputs"]["elements"], differing = json["outputs"]["differing"];
  changed("truncated.json", "/schema", "zeroulp.fault/2", "schema: \"zeroulp.fault/2\" should be \"zeroulp.fault/1\"");
  changed("truncated.json", "/class", "the bias", "class: \"the bias\" should be \"rounding of the result\"");
  changed("truncated.json", "/op", "residual", "op: \"residual\" should be \"linear_s8\"");
  changed("truncated.json", "/predicted", "xxxxxxxxxx", "predicted: \"xxxxxxxxxx\" should be \"xx......x.\"");
  changed("truncated.json", "/suite_case", "", "measured: \"" + measured + "\" should be \"." + measured.substr(1) + "\"");
  changed("truncated.json", "/measured", "xxxxxxxxxx", "measured: \"xxxxxxxxxx\" should be \"" + measured + "\"");
  changed("truncated.json", "/outputs/elements", elements + 1, "outputs: spacings: sum to " + std::to_string(elements) + ", not to " + std::to_string(elements + 1));
  changed("truncated.json", "/outputs/beyond_torch", differing + 1, "outputs: beyond_torch: " + std::to_string(differing + 1) + " is not an integer from 0 to " + std::to_string(differing));
  changed("truncated.json", "/outputs/first", "", "outputs: first: \"\", and " + std::to_string(differing) + " elements differ");
  changed("truncated.json", "/text/prompts", 4, "text: prompts: 4 should be 3");
  changed("truncated.json", "/text/parted", 4, "text: parted: 4 is not an integer from 0 to 3");
  changed("truncated.json", "/text/first_token", 12, "text: first_token: 12 is not an integer from -1 to 11");
  changed("truncated.json", "/text/perplexity", 0, "text: perplexity: 0 is not a number above 0 and at most 1.7976931348623157e+308");
  changed("truncated.json", "/features", std::vector<std::string>(json["outputs"]["places"].get<size_t>() + 1, json["features"][0]),
          "features: " + std::to_string(json["outputs"]["places"].get<int64_t>() + 1) + ", more than " + json["outputs"]["places"].dump());
  const nlohmann::json tokens = nlohmann::json::parse(text_of("baseline.json"))["tokens"];
  const int64_t vocab = model_->config().vocab;
  changed("baseline.json", "/schema", "zeroulp.fault/1", "schema: \"zeroulp.fault/1\" should be \"zeroulp.faults.baseline/1\"");
  changed("baseline.json", "/perplexity", 0, "perplexity: 0 is not a number above 0 and at most 1.7976931348623157e+308");
  changed("baseline.json", "/tokens", {tokens[0], tokens[1]}, "tokens: 2 lists for 3 prompts");
  changed("baseline.json", "/tokens/1", {1, 2}, "tokens: 2 tokens for prompt 1, and 12 are generated");
  changed("baseline.json", "/tokens/0/3", vocab, "tokens: " + std::to_string(vocab) + " is not an integer from 0 to " + std::to_string(vocab - 1) + " (item 3 of the array)");
}

TEST_F(FaultStudy, ANumberBeyondBinary64IsNamed) {
  ASSERT_TRUE(run({"truncated"}));
  std::string text = text_of("truncated.json");
  const size_t at = text.find("\"perplexity\": ") + 14;
  text.replace(at, text.find_first_of(",}", at) - at, "1e999");
  std::ofstream(folder_ / "truncated.json") << text;
  const std::string line = refusal({"truncated"});
  EXPECT_NE(line.find("truncated.json: damaged (byte "), line.npos) << line;
  EXPECT_NE(line.find("the number \"1e999\" is beyond binary64); remove it"), line.npos) << line;
}

TEST_F(FaultStudy, OneFaultIsNotSpokenOfAsMany) {
  const auto study = run({"truncated"});
  ASSERT_TRUE(study) << study.error().text;
  const std::vector<std::string> lines = findings(*study);
  EXPECT_EQ(lines[0], "Equality on the suite's inputs rejects 1 of 1 fault.");
  EXPECT_EQ(lines[1], "1 of 1 changes bits of outputs on the model's own inputs.");
  EXPECT_EQ(lines[2], "one bf16 spacing: 1 of 1 passes unnoticed.");
  EXPECT_EQ(headline(*study), "Equality rejects the fault; the one that changes outputs of this model stays within one bf16 spacing");
  const auto loud = run({"first-rows-scale"});
  EXPECT_EQ(findings(*loud)[2], "one bf16 spacing: 0 of 1 passes unnoticed.");
  EXPECT_EQ(headline(*loud), "Equality rejects the fault; the one that changes outputs of this model does not stay within one bf16 spacing");
  EXPECT_EQ(headline(*run({"silu-library-exp"})), "Equality rejects the fault; no output of this model changes");
  EXPECT_EQ(headline(*run({"truncated", "first-rows-scale"})), "Equality rejects all 2 faults; 1 of the 2 that change outputs of this model stays within one bf16 spacing");
}

}  // namespace
}  // namespace zeroulp::verify
