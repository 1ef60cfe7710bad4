#include "verify/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/safetensors.h"
#include "io/temporary_folder.h"
#include "num/bf16.h"
#include "verify/diff_report.h"

namespace zeroulp::verify {
namespace {

namespace fs = std::filesystem;

struct Item {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class DiffTest : public ::testing::Test {
 protected:
  fs::path file(const std::string& name, const std::vector<Item>& items) {
    std::vector<io::TensorSpec> specs;
    for (const Item& i : items) specs.push_back({i.name, i.dtype, i.shape});
    const fs::path path = folder_.path() / name;
    auto writer = io::SafetensorsWriter::create(path, specs, {}, true);
    EXPECT_TRUE(writer);
    for (const Item& i : items) EXPECT_TRUE(writer->write(i.name, std::as_bytes(std::span(i.bytes))));
    EXPECT_TRUE(writer->commit());
    return path;
  }
  fs::path text(const std::string& name, const std::string& content) {
    std::ofstream(folder_.path() / name) << content;
    return folder_.path() / name;
  }
  TensorDiff one(Dtype dtype, const std::string& a, const std::string& b, std::vector<int64_t> shape) {
    auto diff = diff_paths(file("a.safetensors", {{"t", dtype, shape, a}}), file("b.safetensors", {{"t", dtype, shape, b}}));
    EXPECT_TRUE(diff) << diff.error().text;
    return diff->checkpoints.tensors.at(0);
  }
  static int64_t count(const TensorDiff& t, std::string_view name) {
    for (size_t i = 0; i < kDistanceNames.size(); ++i)
      if (kDistanceNames[i] == name) return t.distances[i];
    ADD_FAILURE() << name;
    return -1;
  }

  TemporaryFolder folder_;
};

TEST_F(DiffTest, EqualFilesAreEqualAndCounted) {
  const std::vector<float> values = {1, -0.0f, NAN, INFINITY};
  const auto a = file("a.safetensors", {{"t", Dtype::kF32, {2, 2}, bytes_of(values)}});
  const auto b = file("b.safetensors", {{"t", Dtype::kF32, {2, 2}, bytes_of(values)}});
  auto diff = diff_paths(a, b);
  ASSERT_TRUE(diff);
  EXPECT_TRUE(diff->equal()) << "a NaN equals the NaN with the same bits";
  EXPECT_EQ(diff->compared(), 4);
  EXPECT_EQ(diff_text(*diff, 20), "Equal: 1 tensors, 4 elements\n");
}

TEST_F(DiffTest, Bf16DistancesAreCountedAndTheFirstIsShownInBits) {
  const std::vector<uint16_t> a = {0x3F80, 0x3F80, 0x0000, 0x0001, 0x7F80, 0x7FC0, 0x3F80, 0x4000};
  const std::vector<uint16_t> b = {0x3F80, 0x3F81, 0x8000, 0x8001, 0x7F7F, 0x3F80, 0x3F8A, 0x4000};
  const TensorDiff t = one(Dtype::kBF16, bytes_of(a), bytes_of(b), {2, 2, 2});
  EXPECT_EQ(t.state, TensorState::kDiffers);
  EXPECT_EQ(t.differing, 6);
  EXPECT_EQ(t.elements, 8);
  EXPECT_EQ(t.first, (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(t.first_a, "1 (0x3f80)");
  EXPECT_EQ(t.first_b, "1.0078125 (0x3f81)");
  EXPECT_EQ(count(t, "1"), 2) << "1.0 to its neighbour, infinity to the largest number";
  EXPECT_EQ(count(t, "sign of zero"), 1);
  EXPECT_EQ(count(t, "2"), 1) << "across zero: the smallest numbers of either sign";
  EXPECT_EQ(count(t, "NaN in one"), 1);
  EXPECT_EQ(count(t, "9-16"), 1);
  EXPECT_EQ(t.largest_distance, 10u);
}

TEST_F(DiffTest, EveryBucketEdgeOfFp32) {
  const uint64_t distances[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 256, 257, 65536, 65537};
  std::vector<uint32_t> a, b;
  for (const uint64_t d : distances) {
    a.push_back(0xBF800000u);
    b.push_back(0xBF800000u + static_cast<uint32_t>(d));
  }
  const TensorDiff t = one(Dtype::kF32, bytes_of(a), bytes_of(b), {static_cast<int64_t>(a.size())});
  EXPECT_EQ(t.distances, (DistanceCounts{0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 1, 0}));
  EXPECT_EQ(t.largest_distance, 65537u);
}

TEST_F(DiffTest, WidestDistancesDoNotOverflow) {
  const TensorDiff d = one(Dtype::kF64, bytes_of<double>({-INFINITY}), bytes_of<double>({INFINITY}), {1});
  EXPECT_EQ(d.largest_distance, 2 * uint64_t{0x7FF0000000000000});
  const TensorDiff i = one(Dtype::kI64, bytes_of<int64_t>({INT64_MIN}), bytes_of<int64_t>({INT64_MAX}), {});
  EXPECT_EQ(i.largest_distance, UINT64_MAX);
  EXPECT_EQ(i.first_a, "-9223372036854775808 (0x8000000000000000)");
  const TensorDiff s = one(Dtype::kI8, bytes_of<int8_t>({-128, 5}), bytes_of<int8_t>({127, 4}), {2});
  EXPECT_EQ(s.largest_distance, 255u);
  EXPECT_EQ(count(s, "1"), 1);
}

TEST_F(DiffTest, PackedTypesAreComparedByByte) {
  const TensorDiff t = one(Dtype::kF4, std::string("\x11\x22", 2), std::string("\x11\x23", 2), {1, 4});
  EXPECT_EQ(t.differing, 1);
  EXPECT_EQ(t.first, (std::vector<int64_t>{1}));
}

TEST_F(DiffTest, MissingAndReshapedTensorsAreNamedInModelOrder) {
  const std::string two = bytes_of<uint16_t>({1, 2});
  const auto a = file("a.safetensors", {{"lm_head.weight", Dtype::kBF16, {2}, two},
                                        {"model.embed_tokens.weight", Dtype::kBF16, {2}, two},
                                        {"model.layers.10.w", Dtype::kBF16, {2}, two},
                                        {"model.layers.2.w", Dtype::kBF16, {1, 2}, two}});
  const auto b = file("b.safetensors", {{"lm_head.weight", Dtype::kF16, {2}, two},
                                        {"model.embed_tokens.weight", Dtype::kBF16, {2}, two},
                                        {"model.layers.2.w", Dtype::kBF16, {2, 1}, two},
                                        {"model.norm.weight", Dtype::kBF16, {2}, two}});
  auto diff = diff_paths(a, b);
  ASSERT_TRUE(diff);
  EXPECT_FALSE(diff->equal());
  std::string order;
  for (const TensorDiff& t : diff->checkpoints.tensors) order += t.name + ": " + std::string(state_name(t.state)) + "\n";
  EXPECT_EQ(order,
            "model.embed_tokens.weight: equal\n"
            "model.layers.2.w: shape differs\n"
            "model.layers.10.w: only in A\n"
            "lm_head.weight: type differs\n"
            "model.norm.weight: only in B\n");
  EXPECT_NE(
      diff_text(*diff, 20).find("first difference in model order: model.layers.2.w: shape differs, BF16 [1, 2] / BF16 [2, 1]"),
      std::string::npos)
      << diff_text(*diff, 20);
  EXPECT_NE(diff_text(*diff, 1).find("and 3 more"), std::string::npos);
}

TEST_F(DiffTest, FoldersAlsoDifferInTheirConfiguration) {
  for (const char* name : {"a", "b"}) {
    fs::create_directory(folder_.path() / name);
    file(std::string(name) + "/model.safetensors", {{"t", Dtype::kU8, {1}, "x"}});
    text(std::string(name) + "/config.json", R"({"rms_norm_eps": 1e-5, "x": [1, 2]})");
  }
  auto same = diff_paths(folder_.path() / "a", folder_.path() / "b");
  ASSERT_TRUE(same) << same.error().text;
  EXPECT_TRUE(same->equal());
  text("b/config.json", R"({"x": [1, 2], "rms_norm_eps": 0.00001})");
  EXPECT_TRUE(diff_paths(folder_.path() / "a", folder_.path() / "b")->equal()) << "another spelling of the same content";
  text("b/config.json", R"({"rms_norm_eps": 1e-6, "x": [1, 2]})");
  text("b/generation_config.json", "{}");
  auto differs = diff_paths(folder_.path() / "a", folder_.path() / "b");
  ASSERT_TRUE(differs);
  EXPECT_FALSE(differs->equal());
  EXPECT_EQ(differs->checkpoints.differing_json,
            (std::vector<std::string>{"\"config.json\" differs, first at \"/rms_norm_eps\"",
                                      "\"generation_config.json\" is only in B"}));
}

// A log entry whose digest is `byte` over and over.
std::string entry(int sequence, int position, int byte) {
  std::string hex;
  for (int i = 0; i < 16; ++i) hex += fmt::format("{:02x}", byte);
  return fmt::format(R"({{"sequence": {}, "position": {}, "xxh3": "{}"}})", sequence, position, hex);
}

TEST_F(DiffTest, DigestLogsNameSequenceAndPosition) {
  const auto list = [](const std::vector<std::string>& entries) { return fmt::format("[{}]", fmt::join(entries, ", ")); };
  const auto a = text("a.json", fmt::format(R"({{"digests": {}}})", list({entry(0, 0, 0xaa), entry(0, 1, 0xab), entry(1, 0, 0xba),
                                                                         entry(1, 2, 0xbc), entry(1, 1, 0xbb)})));
  const auto b = text("b.json", list({entry(0, 0, 0xaa), entry(0, 1, 0xab), entry(1, 0, 0xba), entry(1, 2, 1), entry(1, 1, 2), entry(1, 3, 0xbd)}));
  auto same = diff_paths(a, a);
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->equal());
  EXPECT_EQ(same->compared(), 5);
  auto diff = diff_paths(a, b);
  ASSERT_TRUE(diff) << diff.error().text;
  const SequenceDiff& s = diff->digests.sequences.at(1);
  EXPECT_EQ(s.first_position, 1) << "by position, not by place in the file";
  EXPECT_EQ(s.differing, 2);
  EXPECT_EQ(s.only_in_b, 1);
  EXPECT_NE(diff_text(*diff, 20).find("first divergence: sequence 1, position 1: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb in A, 0202"), std::string::npos);
}

TEST_F(DiffTest, OfDigestLogsOnlyTheCommonPositionsCanBeMadeToDecide) {
  const auto whole = text("whole.json", fmt::format("[{}, {}, {}]", entry(0, 0, 0xaa), entry(0, 1, 0xab), entry(0, 2, 0xac)));
  const auto part = text("part.json", fmt::format("[{}, {}]", entry(0, 1, 0xab), entry(0, 2, 0xac)));
  const auto other = text("other.json", fmt::format("[{}, {}]", entry(0, 1, 0xab), entry(0, 2, 0xad)));
  const auto other_tokens = [&](const char* name, int token) {
    return text(name, fmt::format(R"({{"model": {{"identity": "{}"}}, "tokens": [[3, {}]], "digests": [{}]}})", name, token, entry(0, 0, 0xaa)));
  };
  const auto tokens = diff_paths(other_tokens("seven.json", 7), other_tokens("eight.json", 8));
  ASSERT_TRUE(tokens);
  EXPECT_FALSE(tokens->equal()) << "equal logits, other tokens";
  EXPECT_EQ(tokens->digests.first_token, "sequence 0, generated token 1: 7 in A, 8 in B");
  EXPECT_NE(diff_text(*tokens, 0).find("Different: the generated tokens"), std::string::npos) << diff_text(*tokens, 0);
  EXPECT_EQ(tokens->digests.notes, std::vector<std::string>{"the logs are of two models: seven.json in A, eight.json in B"});
  const auto apart = text("apart.json", fmt::format("[{}]", entry(5, 0, 0xaa)));
  EXPECT_FALSE(diff_paths(whole, part)->equal());
  const auto common = diff_paths(whole, part, {}, true);
  ASSERT_TRUE(common) << common.error().text;
  EXPECT_TRUE(common->equal());
  EXPECT_EQ(common->compared(), 2);
  EXPECT_NE(diff_text(*common, 20).find("2 positions that both have; 1 only in A, 0 only in B"), std::string::npos) << diff_text(*common, 20);
  EXPECT_FALSE(diff_paths(whole, other, {}, true)->equal());
  EXPECT_EQ(diff_paths(whole, apart, {}, true)->compared(), 0) << "the command then says that there was nothing to compare";
  const auto tensors = file("t.safetensors", {{"t", Dtype::kU8, {1}, "x"}});
  EXPECT_EQ(diff_paths(tensors, tensors, {}, true).error().code, ExitCode::kUsage);
}

TEST_F(DiffTest, UnusableInputIsRefusedInOneLine) {
  const auto tensors = file("t.safetensors", {{"t", Dtype::kU8, {1}, "x"}});
  const auto log = text("log.json", R"({"digests": []})");
  const std::pair<std::string, const char*> cases[] = {
      {R"({"runs": []})", "digests: is missing"},
      {"null", "null is not a JSON object"},
      {R"([{"sequence": 0}])", "position: is missing"},
      {R"([{"sequence": 0, "position": 1.5, "xxh3": "a"}])", "position: 1.5 is not an integer"},
      {R"([{"sequence": 0, "position": 1, "xxh3": "a"}])", "\"a\" is not 32 lower-case hexadecimal digits"},
      {R"([3])", "digests: 3 is not a JSON object"},
      {"[" + entry(0, 1, 5) + "," + entry(0, 1, 5) + "]", "stands twice"},
  };
  for (const auto& [content, part] : cases) {
    auto diff = diff_paths(log, text("bad.json", content));
    ASSERT_FALSE(diff) << content;
    EXPECT_EQ(diff.error().code, ExitCode::kBadInput);
    EXPECT_NE(diff.error().text.find(part), std::string::npos) << diff.error().text;
  }
  EXPECT_NE(diff_paths(tensors, log).error().text.find("different kinds"), std::string::npos);
  EXPECT_FALSE(diff_paths(tensors, folder_.path() / "absent"));
}

TEST_F(DiffTest, JsonAndPageTellTheSame) {
  const auto a = file("a.safetensors", {{"t", Dtype::kF32, {2}, bytes_of<float>({1, 2})}});
  const auto b = file("b.safetensors", {{"t", Dtype::kF32, {2}, bytes_of<float>({1, 2.5f})}});
  auto diff = diff_paths(a, b);
  ASSERT_TRUE(diff);
  report::Json body;
  add_diff(*diff, body);
  EXPECT_EQ(body["equal"], false);
  EXPECT_EQ(body["compared"], 2);
  EXPECT_EQ(body["tensors"][0]["first"]["index"], report::Json::array({1}));
  EXPECT_EQ(body["tensors"][0]["first"]["b"], "2.5 (0x40200000)");
  const std::string page = diff_page(*diff, "a", "b").html();
  EXPECT_NE(page.find("2.5 (0x40200000)"), std::string::npos);
  EXPECT_NE(page.find("<svg"), std::string::npos);
}

}  // namespace
}  // namespace zeroulp::verify
