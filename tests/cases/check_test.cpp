// A right kernel passes, every standing mutant is named, and nobody can make the check easier than it is.
#include "cases/check.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cases/pipes.h"
#include "cases/runners.h"
#include "cases/tensor_files.h"
#include "ops/mutants/mutants.h"
#include "ops/mutants_of_cases.h"

namespace zeroulp::cases {
namespace {

const std::vector<Kind> kAll = {Kind::kExhaustive, Kind::kHard, Kind::kRandom};

// Every variant that can run here, the reference too, through the whole pipe.
TEST(Check, ARightKernelPassesForEveryOp) {
  for (const Form& form : forms()) {
    const std::string stream = emitted({std::string(form.op), {Kind::kHard, Kind::kRandom}, 0, 150, ""});
    for (const Runner& runner : form.variants(cpu_features())) {
      if (!runner.why_not.empty()) continue;
      const auto answers = answered(stream, [&](const Form&, const Bound& c) -> Result<Outputs> { return runner.run(c); });
      ASSERT_TRUE(answers) << form.op << ": " << answers.error().text;
      const auto result = check_stream(reading(*answers), "pipe");
      ASSERT_TRUE(result) << form.op << ": " << result.error().text;
      EXPECT_GT(result->elements, 0) << form.op;
      EXPECT_EQ(result->wrong, 0) << form.op << ", " << runner.name << ": " << result->first->output << " of " << result->first->case_name;
    }
  }
}

// Case by case, until the mutant gives itself away.
void expect_named(const Form& form, const Runner& mutant) {
  CheckResult result;
  form.each(kAll, [&](Case&& c) {
    const auto bound = bind(form, c);
    EXPECT_TRUE(bound) << form.op << ", case " << c.index << " '" << c.name << "': " << bound.error().text;
    if (!bound) return false;
    const Status compared = compare_case(form, *bound, mutant.run(*bound), result);
    EXPECT_TRUE(compared) << compared.error().text;
    return result.wrong == 0;
  });
  ASSERT_TRUE(result.first) << form.op << ": the mutant '" << mutant.name << "' passes";
  EXPECT_NE(result.first->want, result.first->got);
  EXPECT_NE(result.first->want.find("(0x"), std::string::npos);
  EXPECT_NE(result.first->rule.find("docs/contract.md, section"), std::string::npos);
  std::printf("[ named    ] %s, %s: %s, want %s, got %s\n", std::string(form.op).c_str(), mutant.name.c_str(), result.first->case_name.c_str(), result.first->want.c_str(),
              result.first->got.c_str());
}

template <class Fn>
void expect_all_named(std::string_view op, std::span<const ops::Variant<Fn>> mutants) {
  ASSERT_FALSE(mutants.empty());
  for (const Runner& mutant : runners_of(mutants, cpu_features()))
    if (mutant.name != "not in place") expect_named(*find_form(op), mutant);  // a case's inputs and outputs never share memory
}

TEST(Check, MutantsOfArgmax) { expect_all_named("argmax", ops::mutants::of_argmax()); }
TEST(Check, MutantsOfAttention) { expect_all_named("attention", ops::mutants::of_attention()); }
TEST(Check, MutantsOfEmbedding) { expect_all_named("embedding", ops::mutants::of_embedding()); }
TEST(Check, MutantsOfKvCache) { expect_all_named("kv_cache", ops::mutants::of_kv_cache_rows()); }
TEST(Check, MutantsOfLinear) { expect_all_named("linear_s8", ops::mutants::of_linear_s8()); }
TEST(Check, MutantsOfNll) { expect_all_named("nll", ops::mutants::of_nll()); }
TEST(Check, MutantsOfQuantRows) { expect_all_named("quant_rows", ops::mutants::of_quant_rows()); }
TEST(Check, MutantsOfResidual) { expect_all_named("residual", ops::mutants::of_residual()); }
TEST(Check, MutantsOfRmsnorm) { expect_all_named("rmsnorm", ops::mutants::of_rmsnorm()); }
TEST(Check, MutantsOfRope) { expect_all_named("rope", ops::mutants::of_rope()); }
TEST(Check, MutantsOfSample) { expect_all_named("sample", ops::mutants::of_draws()); }
TEST(Check, MutantsOfSiluMul) { expect_all_named("silu_mul", ops::mutants::of_silu_mul()); }

StreamHeader hard(const std::string& op, int64_t count) { return {op, {Kind::kHard}, 0, count, ""}; }

void expect_refused(const std::string& stream, std::string_view words) {
  const auto result = check_stream(reading(stream), "pipe");
  ASSERT_FALSE(result) << words;
  EXPECT_EQ(result.error().code, ExitCode::kBadInput);
  EXPECT_NE(result.error().text.find(words), std::string::npos) << result.error().text;
}

TEST(Check, EasierInputsAreRefused) {
  StreamHeader header = hard("residual", 3);
  std::string out = encode_header(header);
  CaseDigest digest;
  each_wanted(*find_form("residual"), header, [&](Case&& c) {
    std::fill(c.inputs[1].data.begin(), c.inputs[1].data.end(), std::byte{0});  // y = 0: no kernel gets that wrong
    const std::string payload = encode_case(c);
    digest.add(payload);
    out += encode_frame(FrameType::kCase, payload);
    out += encode_frame(FrameType::kAnswer, encode_answer({c.index, find_form("residual")->reference(*bind(*find_form("residual"), c))}));
    return true;
  });
  out += encode_frame(FrameType::kEnd, encode_end(digest.end()));
  expect_refused(out, "did not come back as it was emitted: its input 'y' differs from element 0 on");
}

TEST(Check, AMissingCaseOrAnswerIsRefused) {
  const StreamHeader two = hard("argmax", 2), three = hard("argmax", 3);
  const std::string short_one = *answered(emitted(two), by_reference);
  // The header asks for three, the rest is that of two.
  expect_refused(encode_header(three) + short_one.substr(encode_header(two).size()), "ends before the last case");
  const std::string long_one = *answered(emitted(three), by_reference);
  expect_refused(encode_header(two) + long_one.substr(encode_header(three).size()), "is one too many");
  expect_refused(emitted(two), "has no answer frame behind it");
}

TEST(Check, AnAnswerOfAnotherTypeOrSizeIsRefused) {
  const auto with = [](const std::function<void(Outputs&)>& change) {
    return *answered(emitted(hard("argmax", 1)), [&](const Form& form, const Bound& c) -> Result<Outputs> {
      Outputs out = form.reference(c);
      change(out);
      return out;
    });
  };
  expect_refused(with([](Outputs& o) { o[0].name = "token"; }), "it must be index I64[1]");
  expect_refused(with([](Outputs& o) { o[0].shape = {1, 1}; }), "it must be index I64[1]");
  expect_refused(with([](Outputs& o) { o.push_back(o[0]); }), "an output too many");
}

TEST(Check, DeclinedCasesAreCountedAndNotPassed) {
  const auto answers = answered(emitted(hard("argmax", 5)), [](const Form& form, const Bound& c) -> Result<Outputs> { return c.c->index % 2 ? Outputs() : form.reference(c); });
  const auto result = check_stream(reading(*answers), "pipe");
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(result->declined, 2);
  EXPECT_EQ(result->cases, 3);
}

// Inputs that came from elsewhere are held against the op's ranges before anything is computed with them.
TEST(Check, CapturedInputsOutsideTheRangesAreRefused) {
  const auto captured = [](const std::string& op, const std::function<void(Case&)>& change) {
    const Form& form = *find_form(op);
    std::string out = encode_header({op, {Kind::kCaptured}, 0, 0, "model"});
    CaseDigest digest;
    each_wanted(form, {op, {Kind::kRandom}, 0, 1, ""}, [&](Case&& c) {
      c.kind = Kind::kCaptured;
      const Outputs right = form.reference(*bind(form, c));
      change(c);
      const std::string payload = encode_case(c);
      digest.add(payload);
      out += encode_frame(FrameType::kCase, payload) + encode_frame(FrameType::kAnswer, encode_answer({c.index, right}));
      return false;
    });
    return out + encode_frame(FrameType::kEnd, encode_end(digest.end()));
  };
  const auto untouched = check_stream(reading(captured("attention", [](Case&) {})), "pipe");
  ASSERT_TRUE(untouched) << untouched.error().text;
  EXPECT_EQ(untouched->wrong, 0);
  // A header of captured cases over others would turn off that these must come back unchanged.
  expect_refused(captured("argmax", [](Case& c) { c.kind = Kind::kHard; }), "is hard, in a header of captured cases");
  expect_refused(captured("linear_s8", [](Case& c) { c.inputs[2].as<int8_t>()[0] = -128; }), "weights: element 0 is -128");
  expect_refused(captured("linear_s8", [](Case& c) { c.attributes[0].value = int64_t{9}; }), "width: is 9");
  expect_refused(captured("attention", [](Case& c) { c.attributes[1].value = int64_t{-1}; }), "first_position: is -1");
  expect_refused(captured("attention", [](Case& c) { c.inputs[5].as<int8_t>()[0] = 43; }), "v_exponents: element 0 is 43");
  expect_refused(captured("rope", [](Case& c) { c.inputs[1].as<int32_t>()[0] = -7; }), "positions: element 0 is -7");
  expect_refused(captured("nll", [](Case& c) { c.attributes[0].value = int64_t{1} << 40; }), "target: is");
  expect_refused(captured("rmsnorm", [](Case& c) { c.attributes[0].value = 0.0; }), "eps: must be above zero");
  expect_refused(captured("embedding", [](Case& c) { c.inputs[0].as<int32_t>()[0] = 11; }), "tokens: element 0 is 11");
  expect_refused(captured("sample", [](Case& c) { c.attributes[2].value = 2.0; }), "top_p: must");
}

class Files : public testing::Test {
 protected:
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("zeroulp-cases-" + std::to_string(::getpid()));
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Status write(const StreamHeader& header) const {
    return write_case_file(folder_ / "cases.safetensors", header, [&](const Sink& sink) -> Status {
      each_wanted(*find_form(header.op), header, sink);
      return {};
    }, true);
  }
};

TEST_F(Files, SafetensorsCarryTheSameCases) {
  for (const Form& form : forms()) {
    ASSERT_TRUE(write({std::string(form.op), {Kind::kHard, Kind::kRandom}, 0, 12, ""})) << form.op;
    ASSERT_TRUE(answer_file(folder_ / "cases.safetensors", folder_ / "answers.safetensors", by_reference, true)) << form.op;
    const auto result = check_files(folder_ / "cases.safetensors", folder_ / "answers.safetensors");
    ASSERT_TRUE(result) << form.op << ": " << result.error().text;
    EXPECT_EQ(result->cases, 12) << form.op;
    EXPECT_EQ(result->wrong, 0) << form.op;
  }
}

TEST_F(Files, AWrongAnswerIsFoundAndAStrayOneRefused) {
  ASSERT_TRUE(write(hard("argmax", 2)));
  const auto one_off = [](const Form& form, const Bound& c) -> Result<Outputs> {
    Outputs out = form.reference(c);
    ++*out[0].as<int64_t>();
    return out;
  };
  ASSERT_TRUE(answer_file(folder_ / "cases.safetensors", folder_ / "answers.safetensors", one_off, true));
  const auto result = check_files(folder_ / "cases.safetensors", folder_ / "answers.safetensors");
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(result->wrong, 2);
  EXPECT_EQ(result->first->rule.find("docs/contract.md, section 8"), 0u) << result->first->rule;
  ASSERT_TRUE(write(hard("argmax", 1)));
  const auto stray = check_files(folder_ / "cases.safetensors", folder_ / "answers.safetensors");
  ASSERT_FALSE(stray);
  EXPECT_NE(stray.error().text.find("1 tensors that answer no case"), std::string::npos) << stray.error().text;
  EXPECT_FALSE(check_files(folder_ / "answers.safetensors", folder_ / "answers.safetensors")) << "answers are no cases";
}

}  // namespace
}  // namespace zeroulp::cases
