#include "verify/run_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "num/seal.h"
#include "source_dir.h"
#include "verify/replay.h"
#include "verify/tiny.h"

namespace zeroulp::verify {
namespace {

// The worked example of docs/spec/run-log.md.
RunLog example() {
  RunLog r;
  r.contract = "ZNC-1";
  r.model_identity = std::string(64, 'a');
  r.model_profile = "w8a15-free";
  r.workload.prompts = {{1, 2}, {3}};
  r.workload.decode_tokens = 2;
  r.workload.sampling = {.temperature = 0.5f, .seed = 7};
  r.log.tokens = {{9, 8}, {7, 6}};
  for (const auto& key : {DigestLog::Key{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}})
    r.log.digests[key] = {0x0102030405060708u + static_cast<uint64_t>(key.first), 0x1112131415161718u + static_cast<uint64_t>(key.second)};
  r.layers = 1;
  for (const auto& [key, digest] : r.log.digests) r.residuals[key] = {0x21 + static_cast<uint64_t>(key.second), 0x31 + static_cast<uint64_t>(key.second)};
  r.provenance = std::make_shared<const io::Json>(io::Json{{"machine", {{"cpu", "a"}}}});
  return r;
}

std::string hex(std::string_view bytes) {
  std::ostringstream out;
  for (const char c : bytes) out << std::hex << (static_cast<unsigned char>(c) >> 4) << (static_cast<unsigned char>(c) & 15);
  return out.str();
}

TEST(RunLog, ReadsWhatItWrote) {
  for (const auto& key : {std::optional<std::string>(), std::optional<std::string>("a key of sixteen bytes or more")}) {
    const RunLog a = example();
    const std::string bytes = encode_run_log(a, key);
    const auto b = decode_run_log(bytes, key, "log");
    ASSERT_TRUE(b) << b.error().text;
    EXPECT_EQ(b->contract, a.contract);
    EXPECT_EQ(b->model_identity, a.model_identity);
    EXPECT_EQ(b->workload.prompts, a.workload.prompts);
    EXPECT_EQ(b->workload.decode_tokens, a.workload.decode_tokens);
    EXPECT_EQ(b->workload.sampling.temperature, 0.5f);
    EXPECT_EQ(b->workload.sampling.seed, 7u);
    EXPECT_EQ(b->log.tokens, a.log.tokens);
    EXPECT_EQ(b->log.digests, a.log.digests);
    EXPECT_EQ(b->layers, 1);
    EXPECT_EQ(b->residuals, a.residuals);
    EXPECT_EQ(*b->provenance, *a.provenance);
    EXPECT_EQ(encode_run_log(*b, key), bytes);
  }
}

TEST(RunLog, TheSpecificationsExampleIsThis) {
  std::ifstream file(source_dir() + "/docs/spec/run-log.md");
  std::string spec, line;
  while (std::getline(file, line)) {
    if (!line.starts_with("    ")) continue;
    for (const char c : line.substr(4, line.find("  |") - 4))
      if (c != ' ') spec += c;
  }
  EXPECT_EQ(spec, hex(encode_run_log(example(), std::nullopt)));
}

TEST(RunLog, NoTruncationAndNoFlippedBitIsAccepted) {
  const std::optional<std::string> key("a key of sixteen bytes or more");
  for (const auto& k : {std::optional<std::string>(), key}) {
    const std::string bytes = encode_run_log(example(), k);
    for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_run_log(bytes.substr(0, size), k, "log")) << size;
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string changed = bytes;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
      const auto r = decode_run_log(changed, k, "log");
      ASSERT_FALSE(r) << bit;
      EXPECT_EQ(r.error().code, ExitCode::kBadInput);
      EXPECT_EQ(r.error().text.find('\n'), std::string::npos);
    }
    EXPECT_FALSE(decode_run_log(bytes + '\0', k, "log"));
  }
  const std::string keyed = encode_run_log(example(), key), plain = encode_run_log(example(), std::nullopt);
  EXPECT_FALSE(decode_run_log(keyed, "another key of sixteen bytes", "log"));
  EXPECT_FALSE(decode_run_log(keyed, std::nullopt, "log"));
  EXPECT_FALSE(decode_run_log(plain, key, "log")) << "a log without a key must not pass for one with";
}

// A sealed file whose inside is wrong: what a hostile writer without a key can make.
TEST(RunLog, AGoodSealDoesNotExcuseWhatIsInside) {
  const std::string good = encode_run_log(example(), std::nullopt);
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string out = good.substr(0, good.size() - 32);
    out.replace(at, bytes.size(), bytes);
    const auto r = decode_run_log(out + num::sha256(out), std::nullopt, "log");
    return r ? std::string() : r.error().text;
  };
  const std::string ones(4, '\xff');
  EXPECT_EQ(with(8, std::string("\x02\x00", 2)), "log: is of version 2; this build reads 1");
  EXPECT_EQ(with(10, std::string("\x02\x00", 2)), "log: has reserved flags set (0x0002)");
  EXPECT_NE(with(12, ones).find("sequences; 1 to 65536 can be"), std::string::npos);
  EXPECT_NE(with(12, std::string(4, '\0')).find("0 sequences"), std::string::npos);
  EXPECT_NE(with(16, ones + ones).find("has a header of"), std::string::npos);
  const size_t body = good.size() - 32 - (2 * 8 + 4 * 3 + 4 * 4 + 32 * 5);
  for (const size_t at : {body, body + 4}) EXPECT_NE(with(at, ones).find("sequence 0 is cut off"), std::string::npos);
  EXPECT_NE(with(24, "[").find("log"), std::string::npos);
}

TEST(RunLog, AReplayIsEqualOrNamesWhereNot) {
  const auto model = tiny_model("llama");
  ASSERT_TRUE(model);
  RunLog r;
  r.contract = model::kContract;
  r.model_identity = model->identity();
  r.workload = tiny_workload();
  for (const float temperature : {0.0f, 0.9f}) {
    r.workload.sampling = {.temperature = temperature, .seed = 3};
    ASSERT_TRUE(compute(*model, {.kernel = "reference"}, engine::Plant::kNone, r));
    const auto read = decode_run_log(encode_run_log(r, std::nullopt), std::nullopt, "log");
    ASSERT_TRUE(read) << read.error().text;
    const auto same = replay(*model, *read, {.threads = 2, .batch = 3, .chunk = 7}, engine::Plant::kNone);
    ASSERT_TRUE(same) << same.error().text;
    EXPECT_TRUE(same->holds()) << same->verdict();
    EXPECT_EQ(same->difference.compared, 127 + 129 + 1 + 17 + 4 * 3);
  }
  // A fault of one layer is found in that layer.
  RunLog changed = r;
  for (const auto& [layer, after_mlp] : {std::pair{0, false}, {0, true}, {1, false}, {1, true}}) {
    changed = r;
    for (auto& [key, row] : changed.residuals)
      for (size_t word = static_cast<size_t>(2 * layer + after_mlp); word < row.size(); ++word) row[word] ^= key.second >= 5;
    for (auto& [key, digest] : changed.log.digests) digest.low ^= key.second >= 5;
    const auto found = replay(*model, changed, {}, engine::Plant::kNone);
    ASSERT_TRUE(found && found->first_layer);
    EXPECT_EQ(found->first_layer->layer, layer);
    EXPECT_EQ(found->first_layer->after_mlp, after_mlp);
    EXPECT_EQ(found->first_layer->position, 5);
    EXPECT_NE(found->first_layer->likely.fault_class, FaultClass::kNone);
    EXPECT_FALSE(found->holds());
  }
  changed = r;
  changed.log.digests[{1, 20}].low ^= 1;
  const auto other = replay(*model, changed, {}, engine::Plant::kNone);
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->holds());
  EXPECT_NE(other->verdict().find("1 of 286 positions have other bits, first position 20 of sequence 1"), std::string::npos) << other->verdict();
  changed = r;
  changed.log.tokens[2][1] ^= 1;
  EXPECT_NE(replay(*model, changed, {}, engine::Plant::kNone)->verdict().find("generated token 1 of sequence 2 is another"), std::string::npos);
  changed = r;
  changed.model_identity[0] ^= 1;
  EXPECT_FALSE(replay(*model, changed, {}, engine::Plant::kNone));
}

// Sampling draws by sequence and position alone: batches and chunks move no token.
TEST(RunLog, SampledTokensDependOnNothingButTheSeed) {
  const auto model = tiny_model("qwen2");
  Workload work = tiny_workload();
  work.sampling = {.temperature = 0.9f, .seed = 3};
  const auto one = run_digests(*model, work, {}), two = run_digests(*model, work, {.threads = 3, .batch = 4, .chunk = 7, .ranks = 2});
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->tokens, two->tokens);
  work.sampling.seed = 4;
  EXPECT_NE(run_digests(*model, work, {})->tokens, one->tokens);
}

}  // namespace
}  // namespace zeroulp::verify
