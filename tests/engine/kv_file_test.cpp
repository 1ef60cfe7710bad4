// A saved KV cache goes on as if nothing had come between: the same logits on any kernel, thread count and number of ranks. What is not the
// cache of this model, or is damaged, is refused.
#include "engine/kv_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "device/device.h"
#include "engine/generate.h"
#include "model/seeded.h"
#include "num/digest.h"

namespace zeroulp::engine {
namespace {

namespace fs = std::filesystem;

class KvFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("zeroulp-kv-" + std::to_string(::getpid()) + "-" + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path path(const char* name) const { return folder_ / name; }
  fs::path folder_;
};

struct Made {
  std::vector<int32_t> tokens;
  std::vector<num::Digest> digests;
};

std::vector<int32_t> some_tokens(int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * i % 89 + i % 7));
  return tokens;
}

EngineOptions options(const std::string& kernel, int threads, int ranks, int64_t rows) {
  return {.kernel = kernel, .threads = threads, .ranks = ranks, .max_rows = rows, .max_context = 512, .max_total_positions = 1024};
}

// One request, `steps` tokens behind `prompt`; from a saved cache where `from` is given, saved to `to` where that is.
Made run(const model::QuantizedModel& model, const EngineOptions& o, const std::vector<int32_t>& prompt, int64_t steps, const SavedKv* from, const fs::path& to) {
  auto engine = Engine::create(model, o);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().text);
  Request r;
  r.prompt = prompt;
  r.max_tokens = steps;
  r.sampling = {0.9f, 40, 0.95, 7};
  if (from != nullptr)
    r.begin = [&](int64_t id) { return from->restore(**engine, id, std::min(from->positions(), static_cast<int64_t>(prompt.size()) - 1)); };
  if (!to.empty())
    r.end = [&](int64_t id, std::span<const int32_t> tokens) -> Status {
      ZU_TRY_ASSIGN(const codec::PackReport done, save_kv(**engine, model, id, tokens, to, {.level = codec::Level::kRest}));
      EXPECT_EQ(done.files, 1u);
      return {};
    };
  Made made;
  const auto outcome = generate(**engine, std::span(&r, 1), 1, [&](const Step& s) {
    made.digests.push_back(s.digest);
    return true;
  });
  EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().text);
  if (outcome) made.tokens = (*outcome)[0].tokens;
  return made;
}

TEST_F(KvFile, GoesOnWithTheSameBits) {
  for (const auto& [architecture, key_width] : {std::pair("llama", 15), std::pair("qwen2", 8), std::pair("qwen3", 0)}) {
    const model::QuantizedModel model = model::make_seeded({.architecture = architecture, .layers = 3, .key_width = key_width}, 5);
    for (const int64_t length : {1, 128, 131}) {
      const std::vector<int32_t> prompt = some_tokens(length);
      const Made whole = run(model, options("", 2, 1, 64), prompt, 40, nullptr, {});
      ASSERT_EQ(whole.digests.size(), 40u);
      for (const int64_t part : {0, 1, 25}) {  // tokens before the interruption; none: a prefill alone
        const fs::path file = path(fmt::format("{}-{}-{}", architecture, length, part).c_str());
        run(model, options(length == 1 ? "reference" : "", 1, 2, 512), prompt, part, nullptr, file);
        const auto saved = SavedKv::open(file, model);
        ASSERT_TRUE(saved) << saved.error().text;
        EXPECT_EQ(static_cast<int64_t>(saved->tokens().size()), length + part);
        EXPECT_EQ(saved->positions(), length + part - (part > 0 ? 1 : 0));
        const Made rest = run(model, options("", 1, part == 25 ? 2 : 1, 16), saved->tokens(), 40 - part, &*saved, {});
        ASSERT_EQ(rest.digests.size(), static_cast<size_t>(40 - part));
        EXPECT_TRUE(std::equal(rest.digests.begin(), rest.digests.end(), whole.digests.begin() + part)) << architecture << ", prompt of " << length << ", interrupted after " << part;
        EXPECT_TRUE(std::equal(rest.tokens.begin(), rest.tokens.end(), whole.tokens.begin() + part));
      }
    }
  }
}

TEST_F(KvFile, AContinuationIsComputedBehindIt) {
  const model::QuantizedModel model = model::make_seeded({}, 6);
  const std::vector<int32_t> all = some_tokens(200);
  const Made whole = run(model, options("", 1, 1, 64), all, 5, nullptr, {});
  run(model, options("", 1, 1, 64), std::vector<int32_t>(all.begin(), all.begin() + 150), 0, nullptr, path("kv"));
  const auto saved = SavedKv::open(path("kv"), model);
  ASSERT_TRUE(saved) << saved.error().text;
  EXPECT_EQ(run(model, options("", 1, 1, 64), all, 5, &*saved, {}).digests, whole.digests);
}

TEST_F(KvFile, IsTheSameFromAGpuAndGoesOnThereAsOnTheProcessor) {
  if (const std::string why = device::why_unavailable(0); !why.empty()) GTEST_SKIP() << why;
  for (const auto& [architecture, key_width] : {std::pair("llama", 15), std::pair("qwen2", 8)}) {
    const model::QuantizedModel model = model::make_seeded({.architecture = architecture, .layers = 3, .key_width = key_width}, 5);
    for (const int64_t length : {1, 128, 131}) {
      const std::vector<int32_t> prompt = some_tokens(length);
      const Made whole = run(model, options("", 2, 1, 64), prompt, 30, nullptr, {});
      const auto on = [&](int gpu, int ranks) {
        EngineOptions o = options("", 1, ranks, 64);
        o.device = gpu;
        return o;
      };
      const fs::path files[] = {path(fmt::format("{}-{}-cpu", architecture, length).c_str()), path(fmt::format("{}-{}-gpu", architecture, length).c_str()), path(fmt::format("{}-{}-ranks", architecture, length).c_str())};
      run(model, on(-1, 1), prompt, 11, nullptr, files[0]);
      run(model, on(0, 1), prompt, 11, nullptr, files[1]);
      run(model, on(0, 2), prompt, 11, nullptr, files[2]);
      for (const fs::path& file : files) {
        EXPECT_EQ(*read_text_file(file, 1 << 30), *read_text_file(files[0], 1 << 30)) << file.filename();
        const auto saved = SavedKv::open(file, model);
        ASSERT_TRUE(saved) << saved.error().text;
        for (const EngineOptions& o : {on(0, 1), on(0, 2), on(-1, 1)}) {
          const Made rest = run(model, o, saved->tokens(), 19, &*saved, {});
          ASSERT_EQ(rest.digests.size(), 19u);
          EXPECT_TRUE(std::equal(rest.digests.begin(), rest.digests.end(), whole.digests.begin() + 11)) << architecture << ", prompt of " << length << ", device " << o.device << ", " << o.ranks << " ranks";
        }
      }
    }
  }
}

std::string why(const fs::path& file, const model::QuantizedModel& model) {
  const auto saved = SavedKv::open(file, model);
  return saved ? "" : saved.error().text;
}

TEST_F(KvFile, OfAnotherModelOrContractIsRefused) {
  const model::QuantizedModel model = model::make_seeded({}, 6), other = model::make_seeded({}, 7);
  run(model, options("", 1, 1, 64), some_tokens(20), 3, nullptr, path("kv"));
  EXPECT_EQ(why(path("kv"), model), "");
  EXPECT_NE(why(path("kv"), other).find("is the cache of another model"), std::string::npos) << why(path("kv"), other);
  ASSERT_TRUE(codec::unpack(path("kv"), path("plain"), {}));
  std::string bytes = *read_text_file(path("plain"), 1 << 30);
  const size_t at = bytes.find("ZNC-1");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4] = '2';
  std::ofstream(path("later")) << bytes;
  EXPECT_NE(why(path("later"), model).find("was computed under contract"), std::string::npos) << why(path("later"), model);
  ASSERT_TRUE(AtomicFile::create(path("empty"), false)->commit());
  EXPECT_NE(why(path("empty"), model), "");
}

// Bits all over the unpacked file, and the packed one: what can still be opened holds the same cache.
TEST_F(KvFile, AFlippedBitIsRefusedOrChangesNothing) {
  const model::QuantizedModel model = model::make_seeded({.hidden = 32, .intermediate = 32, .layers = 1, .heads = 1, .kv_heads = 1, .head_dim = 16, .vocab = 96}, 6);
  const std::vector<int32_t> prompt = some_tokens(3);
  run(model, options("", 1, 1, 64), prompt, 2, nullptr, path("packed"));
  ASSERT_TRUE(codec::unpack(path("packed"), path("plain"), {}));
  const Made expected = run(model, options("", 1, 1, 64), SavedKv::open(path("plain"), model)->tokens(), 2, nullptr, {});
  for (const char* name : {"plain", "packed"}) {
    const std::string good = *read_text_file(path(name), 1 << 30);
    int refused = 0, opened = 0;
    for (size_t bit = 0; bit < 8 * good.size(); bit += 61) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
      std::ofstream(path("bad"), std::ios::binary) << bad;
      const auto saved = SavedKv::open(path("bad"), model);
      if (!saved) {
        ++refused;
        EXPECT_EQ(saved.error().text.find('\n'), std::string::npos);
        continue;
      }
      ++opened;
      if (opened % 10 == 1) {
        EXPECT_EQ(run(model, options("", 1, 1, 64), saved->tokens(), 2, &*saved, {}).digests, expected.digests) << name << ", bit " << bit;
      }
    }
    EXPECT_GT(refused, 50) << name;
    for (const size_t length : {size_t{0}, size_t{7}, size_t{100}, good.size() - 1}) {
      std::ofstream(path("bad"), std::ios::binary) << good.substr(0, length);
      EXPECT_NE(why(path("bad"), model), "") << name << " cut to " << length;
    }
  }
}

// Values that no engine writes, under a digest that is right.
TEST_F(KvFile, ValuesOutsideTheContractAreRefused) {
  const model::QuantizedModel model = model::make_seeded({.layers = 1}, 6);
  run(model, options("", 1, 1, 64), some_tokens(20), 3, nullptr, path("packed"));
  ASSERT_TRUE(codec::unpack(path("packed"), path("plain"), {}));
  const auto file = io::SafetensorsFile::open(path("plain"));
  ASSERT_TRUE(file);
  const std::string good = *read_text_file(path("plain"), 1 << 30);
  const auto with = [&](const char* tensor, std::vector<uint8_t> bytes) {
    std::string bad = good;
    const io::TensorInfo* t = file->find(tensor);
    EXPECT_NE(t, nullptr) << tensor;
    std::memcpy(bad.data() + t->offset, bytes.data(), bytes.size());
    const size_t data = file->tensors().front().offset, at = bad.find("xxh3_128") + 11;
    const std::string digest = num::xxh3_128(std::as_bytes(std::span(bad)).subspan(data)).hex();
    bad.replace(at, digest.size(), digest);
    std::ofstream(path("bad"), std::ios::binary) << bad;
    return why(path("bad"), model);
  };
  EXPECT_EQ(with("layers.0.key_hi", {1}), "") << "the digest is put right";
  EXPECT_NE(with("tokens", {0, 0, 0, 0x80}).find("outside the model's vocabulary"), std::string::npos);
  EXPECT_NE(with("layers.0.key_lo", {0x40}).find("the contract does not have"), std::string::npos);
  EXPECT_NE(with("layers.0.values", {0x80}).find("the contract does not have"), std::string::npos);
  EXPECT_NE(with("layers.0.value_exponents", {100}).find("the contract does not have"), std::string::npos);
  for (const uint32_t scale : {0x7FC00000u, 0x7F800000u, 0xBF800000u, 0u}) {
    std::vector<uint8_t> bytes(4);
    std::memcpy(bytes.data(), &scale, 4);
    EXPECT_NE(with("layers.0.key_scales", bytes).find("the contract does not have"), std::string::npos) << scale;
  }
}

}  // namespace
}  // namespace zeroulp::engine
