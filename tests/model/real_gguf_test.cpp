// The real models' GGUF files, where ./dev models has put them, against the hashes that the gguf package gave.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/gguf.h"
#include "io/json.h"
#include "model/gguf_import.h"
#include "num/bf16.h"
#include "num/digest.h"
#include "source_dir.h"

namespace zeroulp::model {
namespace {

struct Hashes {
  std::string f32, bf16;
};

// Values in the file's row order, and BF16 bits in Hugging Face's.
Hashes hashes_of(const io::GgufTensor& t, const ModelConfig& config, const std::string& hf_name) {
  const auto columns = static_cast<size_t>(t.row_elements());
  const int64_t rows = t.elements() / t.row_elements();
  const size_t row_bytes = t.data.size() / static_cast<size_t>(rows);
  std::vector<float> values(columns);
  std::vector<uint16_t> bits(columns);
  num::Sha256 f32, bf16;
  for (int64_t row = 0; row < rows; ++row) {
    io::gguf_dequantise(*t.type, t.data.data() + static_cast<size_t>(row) * row_bytes, columns, values.data());
    f32.update(std::as_bytes(std::span(values)));
    const auto from = static_cast<size_t>(gguf_source_row(config, hf_name, row));
    io::gguf_dequantise(*t.type, t.data.data() + from * row_bytes, columns, values.data());
    for (size_t i = 0; i < columns; ++i) bits[i] = num::float_to_bf16(values[i]);
    bf16.update(std::as_bytes(std::span(bits)));
  }
  return {f32.hex(), bf16.hex()};
}

class RealGguf : public ::testing::TestWithParam<std::string> {};

TEST_P(RealGguf, EveryTensorHasTheHashOfTheGgufPackage) {
  const std::string path = source_dir() + "/.cache/models/" + GetParam() + ".gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent; ./dev models fetches it";
  auto golden = io::read_json_file(source_dir() + "/tests/golden/tensors-" + GetParam() + ".json");
  ASSERT_TRUE(golden) << golden.error().text;
  auto gguf = io::GgufModel::open(path);
  ASSERT_TRUE(gguf) << gguf.error().text;
  ModelConfig config;
  config.architecture = (*golden)["architecture"];
  config.head_dim = 64;
  EXPECT_EQ(gguf->find("output.weight") == nullptr, (*golden)["tied"].get<bool>());
  ASSERT_EQ(gguf->tensors().size(), (*golden)["tensors"].size());
  for (const io::Json& row : (*golden)["tensors"]) {
    const io::GgufTensor* t = gguf->find(row["gguf"].get<std::string>());
    ASSERT_NE(t, nullptr) << row["gguf"];
    EXPECT_EQ(gguf_tensor_name(row["hf"].get<std::string>()), t->name);
    EXPECT_EQ(io::Json(t->shape), row["shape"]);
    EXPECT_EQ(t->type->name, row["type"].get<std::string>());
    const Hashes got = hashes_of(*t, config, row["hf"]);
    EXPECT_EQ(got.f32, row["f32_sha256"].get<std::string>()) << t->name;
    EXPECT_EQ(got.bf16, row["bf16_sha256"].get<std::string>()) << t->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RealGguf, ::testing::Values("smollm2", "qwen2.5-coder-0.5b"),
                         [](const auto& instance) { return instance.param == "smollm2" ? "smollm2" : "qwen25"; });

}  // namespace
}  // namespace zeroulp::model
