// The float decoder against what transformers computed with tiny models of every family (tests/golden/tiny).
#include "engine/float_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/divergence.h"
#include "golden_lines.h"
#include "num/bf16.h"

namespace zeroulp::engine {
namespace {

using io::Json;
using Mode = FloatDecoder::Mode;

const std::vector<std::string> kFamilies = {"llama3", "smollm2", "qwen2", "qwen3"};

struct Logits {
  int64_t vocab = 0;
  std::vector<float> values;
  const float* row(int64_t i) const { return values.data() + i * vocab; }
  LogitsSink sink() {
    return [this](const LogitsBlock& block) -> Status {
      EXPECT_EQ(block.first_position * vocab, static_cast<int64_t>(values.size()));
      for (int64_t r = 0; r < block.rows; ++r) values.insert(values.end(), block.row(r), block.row(r) + vocab);
      return {};
    };
  }
};

model::Checkpoint open(const std::string& family) {
  auto checkpoint = model::Checkpoint::open(golden_folder() / "tiny" / family);
  if (!checkpoint) throw std::runtime_error(checkpoint.error().text);
  return std::move(*checkpoint);
}

// config.json with some keys replaced.
model::ModelConfig config_of(const model::Checkpoint& checkpoint, const Json& overrides) {
  Json json = *io::read_json_file(checkpoint.folder() / "config.json");
  json.update(overrides);
  auto config = model::parse_config(json, nullptr, "config.json");
  if (!config) throw std::runtime_error(config.error().text);
  return *config;
}

FloatDecoder decoder_of(const model::Checkpoint& checkpoint, const Json& overrides, const FloatDecoder::Options& options, ThreadPool& pool) {
  auto decoder = FloatDecoder::create(config_of(checkpoint, overrides), weights_of(checkpoint), options, pool);
  if (!decoder) throw std::runtime_error(decoder.error().text);
  return std::move(*decoder);
}

Logits run(const FloatDecoder& decoder, const std::vector<int32_t>& ids) {
  Logits out{decoder.config().vocab, {}};
  const Status status = decoder.forward(ids, out.sink());
  EXPECT_TRUE(status) << status.error().text;
  return out;
}

int64_t argmax(const float* row, int64_t count) { return std::max_element(row, row + count) - row; }

struct Comparison {
  int64_t positions = 0, argmax_equal = 0, rows = 0;
  double worst = 0;  // |difference| over the 64 largest logits, relative to the largest
  double kl = 0;     // mean over rows, within the 64 largest
};

Comparison compare(const std::vector<Json>& lines, const std::string& variant, const std::string& mode, const Logits& logits) {
  Comparison out;
  for (const Json& line : lines) {
    if (!line.contains("variant") || line["variant"] != variant || line["mode"] != mode) continue;
    if (line.contains("argmax")) {
      for (const Json& expected : line["argmax"]) out.argmax_equal += argmax(logits.row(out.positions++), logits.vocab) == expected;
      continue;
    }
    const auto ids = line["ids"].get<std::vector<int64_t>>();
    const auto expected = line["logits"].get<std::vector<float>>();
    std::vector<float> found;
    for (const int64_t id : ids) found.push_back(logits.row(line["position"])[id]);
    float largest = 0, difference = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      difference = std::max(difference, std::abs(expected[i] - found[i]));
    }
    out.worst = std::max(out.worst, static_cast<double>(difference / largest));
    out.kl += kl_divergence(expected.data(), found.data(), static_cast<int64_t>(ids.size()));
    ++out.rows;
  }
  out.kl /= static_cast<double>(std::max<int64_t>(out.rows, 1));
  return out;
}

std::map<std::string, Json> variants(const std::vector<Json>& lines) {
  std::map<std::string, Json> out;
  for (const Json& line : lines)
    if (line.contains("argmax")) out[line["variant"]] = line["config_overrides"];
  return out;
}

class Family : public testing::TestWithParam<std::string> {
 protected:
  const std::vector<Json> lines = read_golden_lines(golden_folder() / "tiny" / GetParam() / "logits.jsonl.zst");
  const std::vector<int32_t> ids = lines[0]["ids"].get<std::vector<int32_t>>();
  const model::Checkpoint checkpoint = open(GetParam());
  ThreadPool pool{2};
};

TEST_P(Family, Fp32EqualsTransformers) {
  for (const auto& [variant, overrides] : variants(lines)) {
    const auto decoder = decoder_of(checkpoint, overrides, {.mode = Mode::kF32}, pool);
    const Comparison c = compare(lines, variant, "f32", run(decoder, ids));
    EXPECT_EQ(c.argmax_equal, c.positions) << variant;
    EXPECT_EQ(c.positions, static_cast<int64_t>(ids.size()));
    EXPECT_GE(c.rows, 16);
    EXPECT_LE(c.worst, 1e-5) << variant;
    RecordProperty("worst_" + variant, std::to_string(c.worst));
  }
}

// A variant's golden must not fit the model without it: else the check above shows nothing.
TEST_P(Family, AWrongConfigurationIsNoticed) {
  for (const auto& [variant, overrides] : variants(lines)) {
    if (variant.empty()) continue;
    const auto decoder = decoder_of(checkpoint, Json::object(), {.mode = Mode::kF32}, pool);
    EXPECT_GT(compare(lines, variant, "f32", run(decoder, ids)).worst, 1e-3) << variant;
  }
}

TEST_P(Family, Bf16IsCloseToTransformers) {
  const FloatDecoder::Options options{.mode = Mode::kBf16, .softmax = Softmax::kEager, .round_logits = true};
  const Comparison c = compare(lines, "", "bf16", run(decoder_of(checkpoint, Json::object(), options, pool), ids));
  EXPECT_EQ(c.rows, static_cast<int64_t>(ids.size()));
  EXPECT_LE(c.kl, 1e-3);
  RecordProperty("kl", std::to_string(c.kl));
  RecordProperty("argmax_equal", std::to_string(c.argmax_equal));
}

TEST_P(Family, DependsOnNeitherThreadsChunksNorBlocks) {
  for (const auto& [variant, overrides] : variants(lines))
    for (const Mode mode : {Mode::kF32, Mode::kBf16}) {
      const Logits expected = run(decoder_of(checkpoint, overrides, {.mode = mode}, pool), ids);
      for (const int threads : {1, 3}) {
        ThreadPool other(threads);
        const auto decoder = decoder_of(checkpoint, overrides, {.mode = mode, .block_rows = 5}, other);
        EXPECT_EQ(run(decoder, ids).values, expected.values);
        for (const size_t chunk : {1, 7, 50}) {
          FloatSequence sequence = decoder.start(static_cast<int64_t>(ids.size()));
          for (size_t at = 0; at < ids.size(); at += chunk)
            ASSERT_TRUE(decoder.extend(sequence, std::span(ids).subspan(at, std::min(chunk, ids.size() - at))));
          std::vector<float> found(expected.values.size());
          decoder.logits(sequence, 0, sequence.length(), found.data());
          EXPECT_EQ(found, expected.values) << variant << " in chunks of " << chunk;
        }
      }
    }
}

TEST_P(Family, CaptureSeesEveryLinearOnce) {
  const auto decoder = decoder_of(checkpoint, Json::object(), {}, pool);
  const model::ModelConfig& c = decoder.config();
  std::set<std::pair<int64_t, std::string>> seen;
  std::vector<float> last;
  const CaptureSink capture = [&](const LinearInput& input) -> Status {
    EXPECT_TRUE(seen.emplace(input.layer, input.name).second) << input.layer << " " << input.name;
    EXPECT_EQ(input.rows, static_cast<int64_t>(ids.size()));
    EXPECT_EQ(input.k, input.name == "mlp.down_proj" ? c.intermediate : input.name == "self_attn.o_proj" ? c.q_size() : c.hidden);
    last.assign(input.x, input.x + input.rows * input.k);
    return {};
  };
  ASSERT_TRUE(decoder.forward(ids, nullptr, capture));
  EXPECT_EQ(static_cast<int64_t>(seen.size()), 7 * c.layers + 1);
  // The head's input, which comes last, gives the logits.
  const auto head = *checkpoint.floats(c.tied_head ? "model.embed_tokens.weight" : "lm_head.weight");
  const Logits logits = run(decoder, ids);
  for (const int64_t j : {int64_t{0}, c.vocab - 1}) {
    double sum = 0;
    for (int64_t k = 0; k < c.hidden; ++k)
      sum += static_cast<double>(last[static_cast<size_t>(3 * c.hidden + k)]) *
             num::bf16_to_float(num::float_to_bf16(head[static_cast<size_t>(j * c.hidden + k)]));
    EXPECT_NEAR(logits.row(3)[j], sum, 1e-4);
  }
}

TEST_P(Family, AnErrorOfTheSinkEndsTheRun) {
  const auto decoder = decoder_of(checkpoint, Json::object(), {.block_rows = 8}, pool);
  int calls = 0;
  const Status status = decoder.forward(ids, [&](const LogitsBlock&) -> Status { return ++calls == 2 ? Status(interrupted()) : Status(); });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kInterrupted);
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(decoder.forward(std::vector<int32_t>{0, static_cast<int32_t>(decoder.config().vocab)}, nullptr));
}

INSTANTIATE_TEST_SUITE_P(Tiny, Family, testing::ValuesIn(kFamilies), [](const auto& family) { return family.param; });

}  // namespace
}  // namespace zeroulp::engine
