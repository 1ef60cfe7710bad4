// Continuous batching: whatever joins, leaves, forks or shares a prefix at whatever step, a sequence's logits are those it has alone.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "engine/engine.h"
#include "model/seeded.h"
#include "num/digest.h"
#include "num/philox.h"

namespace zeroulp::engine {
namespace {

constexpr int64_t kVocab = 61, kLongest = 420, kRows = 96;
constexpr int64_t kOwn = 20;  // tokens that a sequence has for itself, at least

num::Digest digest_of_row(const LogitsBlock& block, int64_t r) {
  return num::digest_of(std::span(block.row(r), static_cast<size_t>(kVocab)));
}

// Digests of every position's logits, the sequence alone in one pass of the reference kernels.
class Alone {
 public:
  explicit Alone(const model::QuantizedModel& model) {
    auto engine = Engine::create(model, {.kernel = "reference", .max_rows = kLongest, .max_context = kLongest, .max_total_positions = 512});
    EXPECT_TRUE(engine);
    engine_ = std::move(*engine);
  }
  const std::vector<num::Digest>& digests(const std::vector<int32_t>& tokens) {
    std::vector<num::Digest>& found = known_[tokens];
    if (!found.empty()) return found;
    const int64_t id = engine_->open_sequence();
    const Engine::Chunk chunk{id, tokens, Engine::Want::kAll};
    const Status s = engine_->forward({&chunk, 1}, [&](const LogitsBlock& block) {
      for (int64_t r = 0; r < block.rows; ++r) found.push_back(digest_of_row(block, r));
      return Status();
    });
    EXPECT_TRUE(s);
    engine_->close_sequence(id);
    return found;
  }

 private:
  std::unique_ptr<Engine> engine_;
  std::map<std::vector<int32_t>, std::vector<num::Digest>> known_;
};

struct Live {
  int64_t id;
  std::vector<int32_t> tokens;  // all it will ever have
};

struct Counts {
  int compared = 0, differing = 0, joined = 0, left = 0, forked = 0, reused = 0;
};

// A random schedule of `steps` passes.
class Schedule {
 public:
  Schedule(const model::QuantizedModel& model, uint64_t seed, const std::string& kernel, Plant plant) : random_(seed), alone_(model) {
    for (int64_t i = 0; i < kLongest; ++i) base_.push_back(token());
    auto engine = Engine::create(model, {.kernel = kernel, .threads = 1 + static_cast<int>(seed % 3), .max_rows = kRows, .max_context = kLongest,
                                         .max_total_positions = 4096, .prefix_cache = seed % 4 != 0, .plant = plant});
    EXPECT_TRUE(engine);
    engine_ = std::move(*engine);
  }

  Counts run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (live_.size() < 7 && (live_.empty() || below(3) == 0)) join();
      if (live_.size() > 1 && below(9) == 0) leave(below(live_.size()));
      if (!live_.empty() && live_.size() < 7 && below(6) == 0) fork(below(live_.size()));
      pass();
    }
    return counts_;
  }

 private:
  uint32_t below(uint64_t n) { return random_.below(n); }
  int32_t token() { return static_cast<int32_t>(below(kVocab)); }

  // The start of the base text, then tokens of its own.
  std::vector<int32_t> text(const std::vector<int32_t>& start) {
    std::vector<int32_t> tokens = start;
    for (int64_t more = kOwn + below(static_cast<uint64_t>(kLongest - kOwn) - start.size() + 1); more > 0; --more) tokens.push_back(token());
    return tokens;
  }
  void join() {
    ++counts_.joined;
    Live l{engine_->open_sequence(), text({base_.begin(), base_.begin() + below(300)})};
    counts_.reused += engine_->reuse_prefix(l.id, l.tokens) > 0;
    live_.push_back(std::move(l));
  }
  void leave(size_t i) {
    ++counts_.left;
    engine_->close_sequence(live_[i].id);
    live_.erase(live_.begin() + static_cast<int64_t>(i));
  }
  void fork(size_t i) {
    const int64_t at = engine_->length(live_[i].id);
    if (at == 0 || at > kLongest - kOwn) return;
    ++counts_.forked;
    live_.push_back({engine_->fork_sequence(live_[i].id), text({live_[i].tokens.begin(), live_[i].tokens.begin() + at})});
  }
  // Some of the sequences, each with some of its next tokens; those at their end leave.
  void pass() {
    std::vector<Engine::Chunk> chunks;
    std::map<int64_t, const Live*> by_id;
    int64_t rows = 0;
    for (size_t i = live_.size(); i-- > 0;) {
      const auto left = static_cast<int64_t>(live_[i].tokens.size()) - engine_->length(live_[i].id);
      if (left == 0) {
        leave(i);
        continue;
      }
      const int64_t count = std::min({left, kRows - rows, below(2) ? 1 : 1 + static_cast<int64_t>(below(50))});
      if (count == 0 || below(4) == 0) continue;
      rows += count;
      chunks.push_back({live_[i].id, std::span<const int32_t>(live_[i].tokens).subspan(live_[i].tokens.size() - static_cast<size_t>(left), static_cast<size_t>(count)),
                        Engine::Want::kAll});
    }
    for (const Live& l : live_) by_id[l.id] = &l;
    if (chunks.empty()) return;
    const Status s = engine_->forward(chunks, [&](const LogitsBlock& block) {
      const std::vector<num::Digest>& want = alone_.digests(by_id.at(block.sequence)->tokens);
      for (int64_t r = 0; r < block.rows; ++r) {
        ++counts_.compared;
        counts_.differing += digest_of_row(block, r) != want[static_cast<size_t>(block.first_position + r)];
      }
      return Status();
    });
    EXPECT_TRUE(s) << s.error().text;
  }

  num::PhiloxStream random_;
  Alone alone_;
  std::vector<int32_t> base_;
  std::unique_ptr<Engine> engine_;
  std::vector<Live> live_;
  Counts counts_;
};

model::QuantizedModel model_of(const std::string& family) {
  model::SeededShape s;
  s.architecture = family;
  s.hidden = 48, s.intermediate = 80, s.heads = 4, s.kv_heads = 2, s.head_dim = 16, s.layers = 2, s.vocab = kVocab;
  s.width = s.key_width = 0;  // both
  if (family == "qwen3") s.window = 100;
  return model::make_seeded(s, 1);
}

class Batching : public ::testing::TestWithParam<std::string> {};

TEST_P(Batching, NoSequencesBitsChangeWithItsNeighbours) {
  const model::QuantizedModel model = model_of(GetParam());
  Counts all;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Counts c = Schedule(model, seed, "", Plant::kNone).run(80);
    EXPECT_EQ(c.differing, 0) << "seed " << seed;
    EXPECT_GT(c.compared, 300);
    all.joined += c.joined, all.left += c.left, all.forked += c.forked, all.reused += c.reused;
  }
  EXPECT_GT(all.joined, 64);
  EXPECT_GT(all.left, 30);
  EXPECT_GT(all.forked, 30);
  EXPECT_GT(all.reused, 10);
}

INSTANTIATE_TEST_SUITE_P(Families, Batching, ::testing::Values("llama", "qwen3"), [](const auto& param) { return param.param; });

TEST(BatchingPlants, ADependenceOnNeighboursOrOnTheSharedPrefixIsSeen) {
  const model::QuantizedModel model = model_of("llama");
  for (const Plant plant : {Plant::kBatch, Plant::kPrefixCache, Plant::kChunk})
    EXPECT_GT(Schedule(model, 1, "reference", plant).run(80).differing, 0) << kPlantNames[static_cast<size_t>(plant)];
}

}  // namespace
}  // namespace zeroulp::engine
