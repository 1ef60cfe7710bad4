// A quantised folder that was changed after it was written: every kind of change is refused with one line, before any logits.
#include "model/quantized_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "io/temporary_folder.h"
#include "model/seeded.h"
#include "model/tiny_folder.h"

namespace zeroulp::model {
namespace {

namespace fs = std::filesystem;
using io::Json;

class QuantizedModelTest : public testing::Test {
 protected:
  void SetUp() override {
    SeededShape shape;
    shape.architecture = "qwen3";
    ASSERT_TRUE(make_seeded(shape, 7).save(folder()));
    header_ = *io::read_json_file(folder() / "zeroulp.json");
  }
  fs::path folder() const { return folder_.path(); }

  // What opening and checking says of the folder as it is now; "" when all is well.
  std::string refusal() const {
    const auto model = QuantizedModel::open(folder());
    const Status status = model ? model->verify_identity() : Status(model.error());
    if (status) return "";
    EXPECT_EQ(status.error().code, ExitCode::kBadInput);
    EXPECT_EQ(status.error().text.find('\n'), std::string::npos);
    EXPECT_EQ(status.error().text.find("json.exception"), std::string::npos);
    return status.error().text;
  }
  std::string with_header(const std::string& text) const {
    write_text(folder() / "zeroulp.json", text);
    return refusal();
  }
  std::string with(const std::function<void(Json&)>& change) const {
    Json header = header_;
    change(header);
    return with_header(header.dump());
  }
  // Changes the bytes of one tensor in the file.
  void damage(const std::string& tensor, size_t at, const std::string& bytes) const {
    uint64_t offset = 0;
    {
      const auto file = io::SafetensorsFile::open(folder() / "model.safetensors");
      ASSERT_TRUE(file);
      ASSERT_NE(file->find(tensor), nullptr) << tensor;
      offset = file->find(tensor)->offset;
    }
    std::fstream out(folder() / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(offset + at));
    out << bytes;
  }

  TemporaryFolder folder_;
  Json header_;
};

#define EXPECT_REFUSED(text, part) EXPECT_NE((text).find(part), std::string::npos) << "gave: " << (text)

TEST_F(QuantizedModelTest, AsWrittenItHolds) { EXPECT_EQ(refusal(), ""); }

TEST_F(QuantizedModelTest, HeadersOfOtherTypesAreNamed) {
  for (const char* text : {"null", "[]", "17", "\"x\""}) EXPECT_REFUSED(with_header(text), "zeroulp.json: " + std::string(text) + " is not a JSON object");
  EXPECT_REFUSED(with_header("{}"), "zeroulp.json: format: is missing");
}

TEST_F(QuantizedModelTest, EveryKeyIsNeededAndTyped) {
  for (const char* key : {"format", "contract", "profile", "config", "linear_widths", "key_widths", "identity"}) {
    EXPECT_REFUSED(with([&](Json& h) { h.erase(key); }), std::string(key) + ": is missing");
    EXPECT_REFUSED(with([&](Json& h) { h[key] = 3.5; }), std::string("zeroulp.json: ") + key + ": 3.5 is not");
  }
  for (const auto& [key, value] : header_["config"].items()) {
    if (key == "bos_token") continue;  // may be null
    EXPECT_REFUSED(with([&](Json& h) { h["config"].erase(key); }), "config: " + key + ": is missing");
    EXPECT_REFUSED(with([&](Json& h) { h["config"][key] = Json::array({Json::object()}); }), "config: " + key + ": ");
  }
}

TEST_F(QuantizedModelTest, NumbersAreNotBentIntoShape) {
  EXPECT_REFUSED(with([](Json& h) { h["config"]["heads"] = 4.5; }), "config: heads: 4.5 is not an integer from 1 to 4096");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["heads"] = 4.0; }), "config: heads: 4.0 is not an integer");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["kv_heads"] = 3; }), "config: kv_heads: 3 does not divide the 4 heads");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["head_dim"] = 15; }), "config: head_dim: 15 is odd");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["vocab"] = uint64_t{1} << 63; }), "config: vocab: 9223372036854775808 is not an integer");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["rms_eps"]["bits"] = "0x7fc00000"; }), "config: rms_eps: ");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["rms_eps"]["bits"] = "-0x1000000"; }), "config: rms_eps: bits: ");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["stop_tokens"] = {96}; }), "config: stop_tokens: 96 is not an integer from 0 to 95");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["window"] = {nullptr}; }), "config: window: has 1 entries for 2 layers");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["window"] = {nullptr, 0}; }), "config: window: 0 is not an integer from 1");
  EXPECT_REFUSED(with([](Json& h) { h["config"]["architecture"] = "gpt2"; }), "config: architecture: \"gpt2\" is none of llama, qwen2, qwen3");
  EXPECT_REFUSED(with([](Json& h) { h["key_widths"] = {8, 9}; }), "a key width of 9 bits");
  EXPECT_REFUSED(with([](Json& h) { h["linear_widths"]["head"] = 15.5; }), "linear_widths: \"head\": 15.5 is not an integer");
  EXPECT_REFUSED(with([](Json& h) { h["identity"] = "0"; }), "identity: \"0\" is not 64 lower-case hexadecimal digits");
}

TEST_F(QuantizedModelTest, OneFlippedBitOfAnyTensorIsSeen) {
  std::vector<std::string> names;
  {
    const auto model = QuantizedModel::open(folder());
    ASSERT_TRUE(model);
    for (const auto& [name, tensor] : model->tensors()) names.push_back(name);
  }
  for (const std::string& name : names) {
    const auto file = *io::SafetensorsFile::open(folder() / "model.safetensors");
    const auto before = std::string(1, static_cast<char>(file.data(*file.find(name))[0]));
    damage(name, 0, std::string(1, static_cast<char>(before[0] ^ 1)));
    EXPECT_REFUSED(refusal(), "the files were changed after they were written");
    damage(name, 0, before);
    EXPECT_EQ(refusal(), "") << name;
  }
}

TEST_F(QuantizedModelTest, TheHeadersOwnNumbersBelongToTheIdentity) {
  EXPECT_REFUSED(with([](Json& h) { h["config"]["max_positions"] = 17; }), "the files were changed after they were written");
  EXPECT_EQ(with([](Json& h) { h["profile"] = "another name"; h["recipe"] = {{"by", "hand"}}; }), "");
}

TEST_F(QuantizedModelTest, ReservedCodesAreNamed) {
  damage("layers.1.down_proj.codes", 161, "\x80");
  EXPECT_REFUSED(refusal(), "layers.1.down_proj.codes[1, 1] is -128");
}

TEST_F(QuantizedModelTest, NormsThatAreNotFiniteAreRefusedAtOnce) {
  for (const char* norm : {"final_norm", "layers.0.input_norm", "layers.1.post_norm", "layers.0.q_norm", "layers.1.k_norm"}) {
    for (const char* bits : {"\x80\x7f", "\xc0\xff"}) {
      fs::remove(folder() / "model.safetensors");
      fs::remove(folder() / "zeroulp.json");
      SetUp();
      damage(norm, 6, bits);
      const auto model = QuantizedModel::open(folder());
      ASSERT_FALSE(model) << norm;
      EXPECT_EQ(model.error().code, ExitCode::kBadInput);
      EXPECT_REFUSED(model.error().text, std::string(norm) + "[3] is NaN or infinite");
    }
  }
}

TEST_F(QuantizedModelTest, AssembledModelsHoldNoReservedCodeEither) {
  const QuantizedModel model = make_seeded({}, 1);
  TensorMap tensors = model.tensors();
  Tensor& codes = tensors.find("embed.codes")->second;
  std::vector<std::byte> bytes(codes.bytes.begin(), codes.bytes.end());
  bytes[5] = std::byte{0x80};
  codes = make_tensor(Dtype::kI8, codes.shape, bytes);
  const auto bad = QuantizedModel::assemble(model.header(), tensors, "made here");
  ASSERT_FALSE(bad);
  EXPECT_REFUSED(bad.error().text, "made here: embed.codes[0, 5] is -128");
}

// Giving up must not wait for gigabytes to be hashed, and moving a model must not disturb the thread that reads it.
TEST_F(QuantizedModelTest, ModelsMayBeMovedAndDroppedWhileTheyAreChecked) {
  for (int i = 0; i < 50; ++i) {
    auto model = QuantizedModel::open(folder());
    ASSERT_TRUE(model);
    QuantizedModel moved = *std::move(model);
    if (i % 2 == 0) continue;
    const QuantizedModel copy = moved;
    EXPECT_TRUE(moved.verify_identity());
    EXPECT_TRUE(copy.verify_identity());
  }
}

}  // namespace
}  // namespace zeroulp::model
