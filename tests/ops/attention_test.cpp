// Every variant of attention against the reference, bit for bit. As in linear_s8_test.cpp a test is named for the fault that its inputs
// catch, and shows that they do with a variant that has it.
#include "ops/attention/contract.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "num/philox.h"
#include "ops/attention/reference.h"
#include "ops/guarded.h"

namespace zeroulp::ops::attention {
namespace {

using kv_cache::Layout;
using Kernel = std::function<void(const Args&)>;

constexpr int64_t kPageOffset = 256;

// One sequence's cache. Slots that were never stored hold what must not count: NaN scales, codes and exponents at their extremes.
struct Cache {
  Layout layout;
  std::vector<Guarded<std::byte>> blocks;
  std::vector<const std::byte*> pages;
  int64_t size = 0;

  Cache(int64_t d, int key_width, int64_t capacity) : layout{d, key_width} {
    for (int64_t b = 0; b * kBlock < capacity; ++b) {
      blocks.emplace_back(kPageOffset + layout.bytes(), std::byte{0x7F});
      pages.push_back(blocks.back().data());
      const auto v = view(b);
      std::fill_n(v.key_scales, kBlock, num::float_of(0xFFC00001u));
    }
  }
  kv_cache::View<std::byte> view(int64_t block) { return {blocks[static_cast<size_t>(block)].data() + kPageOffset, layout}; }
  bool append(const std::vector<uint16_t>& k, const std::vector<uint16_t>& v) {
    const int64_t block = size / kBlock, slot = size % kBlock;
    ++size;
    return kv_cache::store(blocks[static_cast<size_t>(block)].data() + kPageOffset, layout, slot, k.data(), v.data());
  }
};

std::vector<uint16_t> random_row(num::PhiloxStream& random, int64_t d, float scale) {
  std::vector<uint16_t> row(static_cast<size_t>(d));
  for (uint16_t& x : row) x = num::float_to_bf16(random.symmetric() * scale);
  return row;
}

// `key_scale` and `value_scale`: magnitude of position j.
using Magnitude = std::function<float(int64_t)>;
Magnitude constant(float value) {
  return [value](int64_t) { return value; };
}
Cache random_cache(int64_t d, int key_width, int64_t keys, uint64_t seed, const Magnitude& key_scale = constant(2.0f),
                   const Magnitude& value_scale = constant(1.0f)) {
  Cache cache(d, key_width, keys);
  num::PhiloxStream random(seed);
  for (int64_t j = 0; j < keys; ++j) {
    const auto k = random_row(random, d, key_scale(j)), v = random_row(random, d, value_scale(j));
    EXPECT_TRUE(cache.append(k, v));
  }
  return cache;
}

struct Queries {
  int64_t rows, group, first_position, window, d;
  Guarded<int16_t> codes;
  Guarded<float> scales;
  static constexpr int64_t kGap = 5;

  Queries(int64_t rows_, int64_t group_, int64_t first, int64_t window_, int64_t d_, uint64_t seed = 1,
          float scale = 0x1.3p-13f)
      : rows(rows_),
        group(group_),
        first_position(first),
        window(window_),
        d(d_),
        codes((rows_ - 1) * (group_ * d_ + kGap) + group_ * d_, 16256),
        scales((rows_ - 1) * (group_ + 1) + group_) {
    num::PhiloxStream random(seed);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t h = 0; h < group; ++h) {
        for (int64_t i = 0; i < d; ++i) code(r, h, i) = static_cast<int16_t>(static_cast<int>(random.below(32513)) - 16256);
        this->scale(r, h) = scale * (1.0f + 0.01f * static_cast<float>((r * group + h) % 7));
      }
  }
  int16_t& code(int64_t r, int64_t h, int64_t i) { return codes[r * (group * d + kGap) + h * d + i]; }
  float& scale(int64_t r, int64_t h) { return scales[r * (group + 1) + h]; }
};

constexpr int64_t kFaultsStride = 2;
struct Output {
  Guarded<uint16_t> out;
  std::vector<uint8_t> faults;
  bool operator==(const Output& o) const { return std::equal(out.begin(), out.end(), o.out.begin()) && faults == o.faults; }
};
Output run(const Cache& cache, const Queries& q, const Kernel& kernel) {
  const int64_t stride = q.group * q.d + 3;
  Output o{Guarded<uint16_t>((q.rows - 1) * stride + q.group * q.d, 0xA5A5),
           std::vector<uint8_t>(static_cast<size_t>(q.rows * kFaultsStride), 0)};
  kernel({cache.layout, q.rows, q.group, q.first_position, q.window, score_constant(q.d, cache.layout.key_width),
          q.codes.data(), q.group * q.d + Queries::kGap, q.scales.data(), q.group + 1, cache.pages.data(), kPageOffset,
          o.out.data(), stride, o.faults.data(), kFaultsStride});
  return o;
}

std::vector<Variant<Fn>> variants_here() {
  std::vector<Variant<Fn>> here;
  for (const Variant<Fn>& v : variants())
    if (v.needs != Needs::kNothing && why_unavailable(v.needs, cpu_features()).empty()) here.push_back(v);
  return here;
}

// ---- the reference's steps with one of them wrong

enum class Fault {
  kNone,
  kFutureKey,
  kWindowOneShort,
  kBlockOrder,
  kNoGroups,

  kZeroRowCounts,
  kOtherExp2,
  kCeilN,
  kLowLow,
  kKeepsTiny,
  kPrunesEarly,
  kForgetsAlignment,
  kSumOfPlanes
};

struct Sums {
  State s;
  std::vector<float> o;
};
Alignment align_with(const State& s, float n, Fault fault) {
  Alignment al = align(s, n);
  const float apart = std::fabs(s.n - n);
  if (fault == Fault::kForgetsAlignment) al.keep = s.empty ? 0.0f : 1.0f;
  if (!s.empty && apart > 64 && fault == Fault::kKeepsTiny)
    (n > s.n ? al.keep : al.gain) = num::pow2(-static_cast<int>(std::min(apart, 126.0f)));
  if (!s.empty && apart >= 64 && fault == Fault::kPrunesEarly) (n > s.n ? al.keep : al.gain) = 0;
  return al;
}

void faulty_head(const Args& g, int64_t row, int64_t head, Fault fault) {
  const int64_t d = g.layout.d, position = g.first_position + row;
  const int16_t* q = g.q + row * g.q_stride + head * d;
  const float c = g.q_scales[row * g.q_scales_stride + head] * g.score_constant;
  int64_t first = g.window > 0 ? std::max<int64_t>(0, position - g.window + 1) : 0;
  if (fault == Fault::kWindowOneShort && g.window > 1) first = std::max<int64_t>(0, position - g.window + 2);
  const int64_t last = position + (fault == Fault::kFutureKey ? 1 : 0), last_block = last / kBlock;
  const auto empty = [&] { return Sums{{}, std::vector<float>(static_cast<size_t>(d), 0.0f)}; };
  Sums total = empty(), group = empty();
  const auto merge = [&](Sums& to, const Sums& from) {
    const Alignment al = align_with(to.s, from.s.n, fault);
    for (size_t i = 0; i < to.o.size(); ++i) to.o[i] = to.o[i] * al.keep + from.o[i] * al.gain;
    to.s = {false, al.n, to.s.l * al.keep + from.s.l * al.gain};
  };
  for (int64_t step = first / kBlock; step <= last_block; ++step) {
    int64_t block = step;
    if (fault == Fault::kBlockOrder) {  // backwards inside each group of 8
      const int64_t low = std::max(first / kBlock, step / kGroup * kGroup),
                    high = std::min(last_block, step / kGroup * kGroup + kGroup - 1);
      block = high - (step - low);
    }
    const kv_cache::View<const std::byte> kv(g.pages[block] + g.page_offset, g.layout);
    const int64_t from = std::max(first - block * kBlock, int64_t{0}), to = std::min(last - block * kBlock, kBlock - 1);
    std::vector<float> u(kBlock);
    float max_u = -INFINITY;
    int exponent = kv_cache::kZeroRow;
    for (int64_t j = from; j <= to; ++j) {
      const int8_t* low = kv.key_lo ? kv.key_lo + j * d : nullptr;
      int32_t acc = raw_score(q, kv.key_hi + j * d, low, d);
      if (fault == Fault::kLowLow && low) {
        int32_t extra = 0;
        for (int64_t i = 0; i < d; ++i) extra += num::plane_lo(q[i]) * low[i];
        acc += extra / 128;
      }
      u[static_cast<size_t>(j)] = num::i2f(acc) * kv.key_scales[j];
      max_u = std::max(max_u, u[static_cast<size_t>(j)]);
      const int e = kv.value_exponents[j];
      exponent = std::max(exponent, fault == Fault::kZeroRowCounts && e == kv_cache::kZeroRow ? 0 : e);
    }
    const float n = fault == Fault::kCeilN ? std::ceil(c * max_u) + 1.0f : block_exponent_n(c, max_u);
    const int f = exponent == kv_cache::kZeroRow ? 0 : exponent;
    int32_t b = 0;
    std::vector<int32_t> a(static_cast<size_t>(d), 0);
    for (int64_t j = from; j <= to; ++j) {
      Weights w = weights(u[static_cast<size_t>(j)], c, n, kv.value_exponents[j], f);
      if (fault == Fault::kOtherExp2) w.w = num::rne(kProbabilityTop * num::exp2_5(std::fma(u[static_cast<size_t>(j)], c, -n)));
      if (fault == Fault::kSumOfPlanes) w.p = w.p / 128 * 128;
      b += w.w;
      for (int64_t i = 0; i < d; ++i) a[static_cast<size_t>(i)] += w.p * kv.values[i * kBlock + j];
    }
    const Alignment al = align_with(group.s, n, fault);
    for (size_t i = 0; i < a.size(); ++i) {
      const float gain = al.gain * num::pow2(f), kept = group.o[i] * al.keep;
      group.o[i] = al.gain == 0 ? kept : std::fma(num::i2f(a[i]), gain, kept);
    }
    group.s = {false, al.n, al.gain == 0 ? group.s.l * al.keep : std::fma(num::i2f(b), al.gain, group.s.l * al.keep)};
    if ((fault != Fault::kNoGroups && step % kGroup == kGroup - 1) || step == last_block) {
      merge(total, group);
      group = empty();
    }
  }
  uint16_t* out = g.out + row * g.out_stride + head * d;
  for (int64_t i = 0; i < d; ++i) out[i] = num::float_to_bf16(total.o[static_cast<size_t>(i)] / total.s.l);
}
Kernel faulty(Fault fault) {
  return [fault](const Args& g) {
    for (int64_t r = 0; r < g.rows; ++r)
      for (int64_t h = 0; h < g.group; ++h) faulty_head(g, r, h, fault);
  };
}

// What every variant here answers, against the reference.
void expect_equal(const Cache& cache, const Queries& q, const std::string& what) {
  const Output want = run(cache, q, reference);
  for (const Variant<Fn>& v : variants_here())
    EXPECT_TRUE(want == run(cache, q, v.run))
        << v.name << ": " << what << ", d " << q.d << ", K" << cache.layout.key_width << ", " << q.rows << " x " << q.group
        << " queries from " << q.first_position << ", window " << q.window;
}
void expect_caught(const Cache& cache, const Queries& q, Fault fault, const std::string& what) {
  const Output want = run(cache, q, reference);
  EXPECT_TRUE(want == run(cache, q, faulty(Fault::kNone))) << what << ": the mutants' frame itself differs from the reference";
  EXPECT_FALSE(want == run(cache, q, faulty(fault))) << what << ": these inputs do not catch the fault";
  expect_equal(cache, q, what);
}

// ---- shapes

TEST(Attention, EveryShapePositionGroupAndWindow) {
  if (variants_here().empty()) GTEST_SKIP() << "no fast variant runs here";
  for (int64_t d : {2, 6, 30, 64, 66, 96, 128}) {
    for (int key_width : {8, 15}) {
      const Cache cache = random_cache(d, key_width, 300, static_cast<uint64_t>(d));
      for (int64_t position : {0, 1, 15, 16, 63, 127, 128, 129, 255, 299})
        for (int64_t group : {1, 2, 3, 7})
          for (int64_t window : {0, 1, 5, 128, 200}) expect_equal(cache, Queries(1, group, position, window, d), "one row");
      for (int64_t rows : {2, 5, 40, 131})
        for (int64_t window : {0, 3, 130}) expect_equal(cache, Queries(rows, 3, 300 - rows, window, d), "rows");
    }
  }
  for (int64_t d : {512, 1032}) {
    for (int key_width : {8, 15}) expect_equal(random_cache(d, key_width, 140, 3), Queries(3, 2, 126, 0, d), "long heads");
  }
}
TEST(Attention, LongContextsAtGroupEdges) {
  for (int key_width : {8, 15}) {
    const Cache cache = random_cache(64, key_width, 3001, 8);
    for (int64_t position : {1022, 1023, 1024, 1025, 2047, 2048, 3000})
      for (int64_t window : {0, 1, 200, 1025, 1500}) expect_equal(cache, Queries(1, 3, position, window, 64), "long");
    expect_equal(cache, Queries(14, 3, 1017, 0, 64), "rows over a group's edge");
    expect_equal(cache, Queries(14, 3, 1017, 1000, 64), "rows over a group's edge");
  }
}
// Each slot alone, and each element alone: wrong packing shows as a permutation.
TEST(Attention, SingleHotSlotsAndElements) {
  for (int key_width : {8, 15}) {
    Cache cache = random_cache(70, key_width, 128, 21);
    expect_equal(cache, Queries(128, 1, 0, 1, 70), "window of one");
    Queries one(70, 1, 58, 0, 70);
    for (int64_t r = 0; r < 70; ++r)
      for (int64_t i = 0; i < 70; ++i) one.code(r, 0, i) = i == r ? 16256 : 0;
    expect_equal(cache, one, "single-hot query");
  }
}

// ---- what must not count

TEST(Attention, FutureKeyOrEmptySlotCounts) {
  const Cache cache = random_cache(64, 15, 200, 31);
  expect_caught(cache, Queries(4, 2, 60, 0, 64), Fault::kFutureKey, "future key");
  // The slot behind the last stored one holds NaN and extreme codes.
  for (int key_width : {8, 15})
    for (int64_t keys : {1, 2, 15, 16, 17, 64, 100, 127, 129})
      expect_equal(random_cache(64, key_width, keys, 32), Queries(1, 3, keys - 1, 0, 64), "empty slots");
}
TEST(Attention, WindowOneShort) {
  const Cache cache = random_cache(64, 8, 400, 33);
  for (int64_t window : {2, 5, 128, 200})
    expect_caught(cache, Queries(3, 2, 390, window, 64), Fault::kWindowOneShort, "window");
}
TEST(Attention, ZeroValueRowCountsInTheBlockExponent) {
  for (int64_t every : {1, 2, 7}) {  // 1: all rows are zero
    const Cache cache =
        random_cache(64, 15, 300, 34, constant(2.0f), [every](int64_t j) { return j % every == 0 ? 0.0f : 0x1p-20f; });
    const Queries q(5, 3, 290, 0, 64);
    if (every == 1)
      expect_equal(cache, q, "all zero");
    else
      expect_caught(cache, q, Fault::kZeroRowCounts, "zero rows");
  }
}

// ---- exact sums and weights

TEST(Attention, LowPlaneOfProbabilitiesIsLost) {
  expect_caught(random_cache(64, 15, 200, 41), Queries(2, 2, 190, 0, 64), Fault::kSumOfPlanes, "planes of p");
}
TEST(Attention, LowTimesLowIsAdded) {
  expect_caught(random_cache(64, 15, 200, 42), Queries(2, 2, 190, 0, 64), Fault::kLowLow, "lo * lo");
}
TEST(Attention, OtherExponential) {
  expect_caught(random_cache(64, 15, 200, 43), Queries(2, 2, 190, 0, 64), Fault::kOtherExp2, "exp2_5");
}
// All products at their extremes with one sign: the largest sums of scores and of weighted values.
TEST(Attention, LargestSums) {
  for (int64_t d : {64, 128, 1032}) {
    for (int key_width : {8, 15}) {
      Cache cache = random_cache(d, key_width, 256, 44);
      for (int64_t b = 0; b < 2; ++b) {
        const auto v = cache.view(b);
        std::fill_n(v.key_hi, kBlock * d, int8_t{127});
        if (v.key_lo) std::fill_n(v.key_lo, kBlock * d, int8_t{0});
        std::fill_n(v.values, kBlock * d, static_cast<int8_t>(b == 0 ? 127 : -127));
        std::fill_n(v.key_scales, kBlock, 0x1p-20f);
        std::fill_n(v.value_exponents, kBlock, int8_t{0});
      }
      Queries q(4, 2, 252, 0, d);
      for (int64_t i = 0; i < d; ++i)
        for (int64_t r = 0; r < 4; ++r) {
          q.code(r, 0, i) = r % 2 ? -16256 : 16256;
          q.code(r, 1, i) = static_cast<int16_t>(r % 2 ? 16191 : -16193);  // planes 126, 63 and -127, 63
        }
      expect_equal(cache, q, "extremes");
      for (int64_t b = 0; b < 2; ++b) {
        const auto v = cache.view(b);
        for (int64_t i = 0; i < kBlock * d; ++i) {
          v.key_hi[i] = static_cast<int8_t>(i % 2 ? 127 : -127);
          if (v.key_lo) v.key_lo[i] = static_cast<int8_t>(i % 2 ? -64 : 63);
        }
      }
      expect_equal(cache, q, "alternating signs");
    }
  }
}
// Integers c * max u: floor + 1 is not ceil + 1 only beside them.
TEST(Attention, CeilingInsteadOfFloor) {
  expect_caught(random_cache(64, 15, 300, 45), Queries(3, 3, 290, 0, 64), Fault::kCeilN, "ceil");
}
TEST(Attention, EqualMaximaAndZeroScores) {
  for (int key_width : {8, 15}) {
    Cache same(64, key_width, 300);
    num::PhiloxStream random(46);
    const auto k = random_row(random, 64, 2.0f);
    for (int64_t j = 0; j < 300; ++j) same.append(k, random_row(random, 64, 1.0f));
    expect_equal(same, Queries(3, 3, 290, 0, 64), "equal keys");
    Queries zero(3, 3, 290, 0, 64);
    std::fill(zero.codes.begin(), zero.codes.end(), int16_t{0});
    std::fill(zero.scales.begin(), zero.scales.end(), 1.0f);
    expect_equal(same, zero, "zero query");
    expect_equal(random_cache(64, key_width, 200, 1, constant(0.0f)), Queries(3, 3, 190, 0, 64), "zero keys");
  }
}
TEST(Attention, ValueExponentsFarApart) {
  for (int key_width : {8, 15}) {
    num::PhiloxStream random(47);
    const Cache cache = random_cache(96, key_width, 700, 48, constant(1.0f),
                                     [&](int64_t) { return num::pow2(static_cast<int>(random.below(85)) - 38); });
    expect_equal(cache, Queries(6, 3, 690, 0, 96), "exponents");
    expect_equal(cache, Queries(6, 3, 690, 3, 96), "exponents");
  }
}

// ---- merging

Cache steep_cache(int key_width, int64_t keys) {  // n differs between blocks by up to several hundreds, up and down
  return random_cache(64, key_width, keys, 51,
                      [](int64_t j) { return 0.25f * num::pow2(static_cast<int>(j / kBlock * 5 % 9)); });
}
// Blocks b and b + period have the same keys and opposite values, so that what remains of O is what roundings left: bf16 hides the order
// of the additions otherwise. (Fused or not cannot be told apart: products by powers of two are exact.)
Cache mirrored_cache(int64_t period, uint64_t seed) {
  Cache cache = random_cache(64, 15, 2 * period * kBlock, seed, constant(2.0f),
                             [](int64_t j) { return 1.0f + static_cast<float>(j % 1000); });
  for (int64_t b = period; b < 2 * period; ++b) {
    cache.blocks[static_cast<size_t>(b)] = Guarded<std::byte>(kPageOffset + cache.layout.bytes());
    cache.pages[static_cast<size_t>(b)] = cache.blocks[static_cast<size_t>(b)].data();
    std::copy_n(cache.pages[static_cast<size_t>(b - period)], kPageOffset + cache.layout.bytes(),
                cache.blocks[static_cast<size_t>(b)].data());
    const auto v = cache.view(b);
    for (int64_t i = 0; i < kBlock * 64; ++i) v.values[i] = static_cast<int8_t>(-v.values[i]);
  }
  return cache;
}
TEST(Attention, BlocksInAnotherOrder) {
  expect_caught(mirrored_cache(4, 52), Queries(1, 3, 8 * kBlock - 1, 0, 64), Fault::kBlockOrder, "backwards");
}
TEST(Attention, BlocksMergedWithoutGroups) {
  expect_caught(mirrored_cache(8, 53), Queries(1, 3, 16 * kBlock - 1, 0, 64), Fault::kNoGroups, "one chain");
  expect_equal(mirrored_cache(9, 54), Queries(1, 3, 18 * kBlock - 1, 0, 64), "over the groups' edges");
}
TEST(Attention, AlignmentIsForgotten) {
  expect_caught(steep_cache(15, 1500), Queries(8, 3, 1480, 0, 64), Fault::kForgetsAlignment, "keep");
}

// Blocks whose n are exactly 63, 64 and 65 apart, with values large enough that 2^-64 and 2^-65 of them show in the answer.
Cache cut_cache(int apart, bool rising) {
  Cache cache(64, 8, 3 * kBlock);
  num::PhiloxStream random(55);
  for (int64_t j = 0; j < 3 * kBlock; ++j) {
    const bool high = rising ? j >= kBlock : j < kBlock;
    cache.append(random_row(random, 64, 1.0f), random_row(random, 64, high ? 0x1p-36f : 0x1p44f));
  }
  for (int64_t b = 0; b < 3; ++b) {
    const auto v = cache.view(b);
    std::fill_n(v.key_hi, kBlock * 64, int8_t{0});
    for (int64_t j = 0; j < kBlock; ++j) {
      v.key_hi[j * 64] = 1;
      v.key_scales[j] = (rising ? b >= 1 : b == 0) ? static_cast<float>(apart) + 1.5f : 1.5f;
    }
  }
  return cache;
}
Queries cut_queries() {  // c * u = the key's scale
  Queries q(4, 2, 3 * kBlock - 4, 0, 64);
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 64; ++i) q.code(r, h, i) = i == 0 ? 1 : 0;
      q.scale(r, h) = 1.0f / score_constant(64, 8);
    }
  return q;
}
TEST(Attention, CutOfTinyContributions) {
  for (bool rising : {false, true}) {
    for (int apart : {63, 64, 65, 66}) expect_equal(cut_cache(apart, rising), cut_queries(), "cut");
    expect_caught(cut_cache(64, rising), cut_queries(), Fault::kPrunesEarly, "64 apart must count");
    expect_caught(cut_cache(65, rising), cut_queries(), Fault::kKeepsTiny, "65 apart must not");
  }
  for (int key_width : {8, 15}) {
    const Cache cache = steep_cache(key_width, 2500);
    for (int64_t position : {1020, 1150, 2480}) expect_equal(cache, Queries(6, 3, position, 0, 64, 2, 0x1p-9f), "steep");
  }
}

// ---- range errors

TEST(Attention, RangeErrorsGiveNanAndTheFlagForTheirRowAlone) {
  for (int key_width : {8, 15}) {
    Cache cache = random_cache(64, key_width, 400, 61);
    const auto with_nan = [&](Queries q, int64_t row, int64_t head) {
      q.scale(row, head) = num::bf16_to_float(num::kBf16Nan);
      return q;
    };
    const Output o = run(cache, with_nan(Queries(5, 3, 300, 0, 64), 2, 1), reference);
    EXPECT_EQ(o.faults, (std::vector<uint8_t>{0, 0, 0, 0, 1, 0, 0, 0, 0, 0}));
    EXPECT_EQ(o.out[2 * (3 * 64 + 3) + 64], num::kBf16Nan);
    expect_equal(cache, with_nan(Queries(5, 3, 300, 0, 64), 2, 1), "NaN query");

    cache.view(1).key_scales[50] = num::bf16_to_float(num::kBf16Nan);  // position 178
    for (int64_t window : {0, 1, 5}) {
      const Queries q(12, 2, 170, window, 64);
      const Output w = run(cache, q, reference);
      for (int64_t r = 0; r < 12; ++r)
        EXPECT_EQ(w.faults[static_cast<size_t>(r * kFaultsStride)], 170 + r >= 178 && (window == 0 || 170 + r - window < 178))
            << r;
      expect_equal(cache, q, "NaN key");
    }
    cache.view(1).key_scales[50] = INFINITY;
    expect_equal(cache, Queries(12, 2, 170, 0, 64), "infinite key");
  }
}
// |c * max u| at 2^22 is an error, just below it is not.
TEST(Attention, ScoreLimit) {
  for (float limit : {0x1p22f, 0x1.fffffep21f}) {
    for (float sign : {1.0f, -1.0f}) {
      Cache cache = cut_cache(1, false);
      for (int64_t b = 0; b < 3; ++b) std::fill_n(cache.view(b).key_scales, kBlock, limit);
      Queries q = cut_queries();
      for (int64_t r = 0; r < 4; ++r) {
        q.code(r, 0, 0) = static_cast<int16_t>(sign);
        q.scale(r, 0) = q.scale(r, 1) = 1.0f;
      }
      const auto at_limit = [&](const Kernel& kernel) {
        return run(cache, q, [&](Args g) {
          g.score_constant = 1.0f;
          kernel(g);
        });
      };
      const Output want = at_limit(reference);
      EXPECT_EQ(want.faults[0] != 0, limit == 0x1p22f);
      for (const Variant<Fn>& v : variants_here()) EXPECT_TRUE(want == at_limit(v.run)) << v.name << ' ' << limit * sign;
    }
  }
}

// ---- constants

TEST(Attention, ScoreConstantIsCorrectlyRoundedForEveryEvenD) {
  mpfr_t log2e, root, c;
  mpfr_inits2(300, log2e, root, c, static_cast<mpfr_ptr>(nullptr));
  mpfr_set_ui(log2e, 2, MPFR_RNDN);
  mpfr_log(log2e, log2e, MPFR_RNDN);
  mpfr_ui_div(log2e, 1, log2e, MPFR_RNDN);
  for (int64_t d = 2; d <= kMaxD; d += 2) {
    mpfr_sqrt_ui(root, static_cast<unsigned long>(d), MPFR_RNDN);
    mpfr_div(c, log2e, root, MPFR_RNDN);
    ASSERT_EQ(score_constant(d, 8), mpfr_get_flt(c, MPFR_RNDN)) << d;
    mpfr_mul_ui(c, c, 128, MPFR_RNDN);
    ASSERT_EQ(score_constant(d, 15), mpfr_get_flt(c, MPFR_RNDN)) << d;
  }
  mpfr_clears(log2e, root, c, static_cast<mpfr_ptr>(nullptr));
}

}  // namespace
}  // namespace zeroulp::ops::attention
