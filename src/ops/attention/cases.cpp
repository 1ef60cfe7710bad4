#include "ops/attention/cases.h"

#include <fmt/format.h>

#include "num/quant.h"
#include "ops/case_inputs.h"
#include "ops/quant_rows/reference.h"

namespace zeroulp::ops::attention {
namespace {

using namespace conformance;

// A KV head's cache of `positions` keys and the queries that read it. Slots that no key fills hold rubbish: nothing may read them.
struct Problem {
  kv_cache::Layout layout;
  int64_t rows, group, first_position, window;
  std::vector<std::vector<std::byte>> blocks;
  std::vector<int16_t> q;
  std::vector<float> q_scales;

  static constexpr int64_t kPageOffset = 64, kGap = 3;
  int64_t q_stride() const { return group * layout.d + kGap; }
};

Problem make(num::PhiloxStream& random, kv_cache::Layout layout, int64_t rows, int64_t group, int64_t first_position,
             int64_t window = 0) {
  Problem p{layout, rows, group, first_position, window, {}, {}, {}};
  const int64_t blocks = (first_position + rows - 1) / kBlock + 1;
  for (int64_t b = 0; b < blocks; ++b) {
    p.blocks.emplace_back(static_cast<size_t>(layout.bytes() + Problem::kPageOffset));
    for (std::byte& byte : p.blocks.back()) byte = static_cast<std::byte>(random.next());
  }
  return p;
}

void set_key(Problem& p, int64_t position, const std::vector<uint16_t>& k, const std::vector<uint16_t>& v) {
  kv_cache::store(p.blocks[static_cast<size_t>(position / kBlock)].data() + Problem::kPageOffset, p.layout, position % kBlock,
                  k.data(), v.data());
}

void set_queries(Problem& p, const std::vector<uint16_t>& q) {
  const int64_t heads = p.rows * p.group, d = p.layout.d;
  p.q.assign(static_cast<size_t>(p.rows * p.q_stride()), 99);
  p.q_scales.resize(static_cast<size_t>(heads));
  std::vector<uint8_t> faults(static_cast<size_t>(heads));
  for (int64_t row = 0; row < p.rows; ++row)
    quant_rows::reference({q.data() + row * p.group * d, d, p.group, d, 15, num::kAttentionRange, nullptr,
                           p.q.data() + row * p.q_stride(), d, p.q_scales.data() + row * p.group,
                           faults.data() + row * p.group});
}

void visit_problem(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches, const Problem& p) {
  visit({kind,
         fmt::format("{}, {}-bit keys, {} rows of {} x {} at {}, window {}", name, p.layout.key_width, p.rows, p.group,
                     p.layout.d, p.first_position, p.window),
         catches},
        [&](Fn* run, Outputs& out) {
          std::vector<const std::byte*> pages;
          for (const auto& block : p.blocks) pages.push_back(block.data());
          const int64_t out_stride = p.group * p.layout.d + 5;
          Guarded<uint16_t> y(p.rows * out_stride);
          constexpr int64_t kFaultsStride = 3;
          Guarded<uint8_t> faults(p.rows * kFaultsStride);
          run({p.layout, p.rows, p.group, p.first_position, p.window, score_constant(p.layout.d, p.layout.key_width),
               p.q.data(), p.q_stride(), p.q_scales.data(), p.group, pages.data(), Problem::kPageOffset, y.data(), out_stride,
               faults.data(), kFaultsStride});
          out.add("out", y);
          out.add("faults", faults);
        });
}

Problem random_problem(num::PhiloxStream& random, kv_cache::Layout layout, int64_t rows, int64_t group, int64_t first,
                       int64_t window, float sharpness = 1.5f) {
  Problem p = make(random, layout, rows, group, first, window);
  for (int64_t j = 0; j < first + rows; ++j)
    set_key(p, j, bell_bf16s(random, layout.d, sharpness), bell_bf16s(random, layout.d, 1.0f));
  set_queries(p, bell_bf16s(random, rows * group * layout.d, sharpness));
  return p;
}

void shapes(const Visit<Fn>& visit) {
  num::PhiloxStream random(115);
  for (const int key_width : {8, 15}) {
    for (const int64_t d : {2, 6, 16, 32, 64, 80, 96, 128, 256})
      visit_problem(visit, Kind::kRandom, "random", "tails of a head", random_problem(random, {d, key_width}, 2, 3, 150, 0));
    for (const int64_t first : {0, 1, 2, 126, 127, 128, 129, 255, 256, 1022, 1023, 1024, 1025, 2100})
      visit_problem(visit, Kind::kRandom, "random", "the last key of a block, blocks and groups merged in another order",
                    random_problem(random, {64, key_width}, 3, 2, first, 0));
    for (const int64_t window : {1, 2, 17, 127, 128, 129, 200, 1000, 1024})
      visit_problem(visit, Kind::kRandom, "random", "a window off by one, blocks counted from the window's start",
                    random_problem(random, {32, key_width}, 5, 1, 1100, window));
    visit_problem(visit, Kind::kRandom, "many rows", "rows that share a block but not their keys",
                  random_problem(random, {64, key_width}, 40, 3, 100, 0));
    visit_problem(visit, Kind::kRandom, "sharp", "the exponential's clamp",
                  random_problem(random, {64, key_width}, 3, 2, 700, 0, 12.0f));
    visit_problem(visit, Kind::kRandom, "flat", "counts of equal keys",
                  random_problem(random, {64, key_width}, 3, 2, 300, 0, 0.01f));
    visit_problem(visit, Kind::kRandom, "seven heads of 1,500 keys", "groups",
                  random_problem(random, {64, key_width}, 2, 7, 1500, 0));
  }
}

// Keys along the query: key j scores level(j) in powers of two, to the quantiser's accuracy.
template <class Level>
Problem levels(num::PhiloxStream& random, int key_width, int64_t positions, Level level) {
  const int64_t d = 64;
  Problem p = make(random, {d, key_width}, 1, 2, positions - 1, 0);
  for (int64_t j = 0; j < positions; ++j) {
    const float k =
        static_cast<float>(level(j)) / (64.0f * 0.18033688f);  // q = 1 in each of 64 places, log2(e) / 8 the constant
    set_key(p, j, std::vector<uint16_t>(64, num::float_to_bf16(k)), bell_bf16s(random, d, 1.0f));
  }
  std::vector<uint16_t> q(128, 0x3F80);
  for (size_t i = 64; i < 128; ++i) q[i] = 0xBF00;
  set_queries(p, q);
  return p;
}

void merges(const Visit<Fn>& visit) {
  num::PhiloxStream random(116);
  for (const int key_width : {8, 15}) {
    for (const float step : {20.0f, 62.5f, 63.4f, 64.2f, 65.1f, 66.3f, 100.0f, 5000.0f, 100000.0f}) {
      visit_problem(visit, Kind::kHard, fmt::format("each block {} powers of two above the one before", step),
                    "the limit of 64 in the alignment, O or L not scaled", levels(random, key_width, 600, [&](int64_t j) {
                      return step * static_cast<float>(j / kBlock) + static_cast<float>(j % 7);
                    }));
      visit_problem(visit, Kind::kHard, fmt::format("each block {} powers of two below the one before", step),
                    "blocks that must be skipped", levels(random, key_width, 600, [&](int64_t j) {
                      return -step * static_cast<float>(j / kBlock) + static_cast<float>(j % 7);
                    }));
    }
    for (const float step : {13.0f, 63.0f, 64.5f, 70.0f})
      visit_problem(visit, Kind::kHard, fmt::format("blocks up and down by {}, three groups", step),
                    "one merge instead of groups of 8 blocks", levels(random, key_width, 2500, [&](int64_t j) {
                      return j / kBlock % 2 ? step : static_cast<float>(j % 11);
                    }));
    visit_problem(visit, Kind::kHard, "scores up to the limit of 2^22",
                  "a range error where there is none, or none where there is one",
                  levels(random, key_width, 200, [](int64_t j) { return j == 120 ? 4194000.0f : 0.0f; }));
    visit_problem(visit, Kind::kHard, "a score beyond 2^22", "a range error passed over",
                  levels(random, key_width, 200, [](int64_t j) { return j == 120 ? 4230000.0f : 0.0f; }));
    visit_problem(visit, Kind::kHard, "every score beyond -2^22", "a range error passed over",
                  levels(random, key_width, 200, [](int64_t) { return -4230000.0f; }));
  }
}

void values(const Visit<Fn>& visit) {
  num::PhiloxStream random(117);
  const std::vector<uint16_t> zero(64, 0);
  for (const int key_width : {8, 15}) {
    Problem p = random_problem(random, {64, key_width}, 3, 2, 300, 0);
    for (int64_t j = 0; j < 303; ++j)
      set_key(p, j, bell_bf16s(random, 64, 1.0f), j % 3 ? zero : bell_bf16s(random, 64, 0.001f));
    visit_problem(visit, Kind::kHard, "zero value rows between small ones", "a zero row that sets the block's exponent", p);
    for (int64_t j = 0; j < 303; ++j) set_key(p, j, bell_bf16s(random, 64, 1.0f), zero);
    visit_problem(visit, Kind::kHard, "zero values only", "the exponent of a block without values", p);
    for (int64_t j = 0; j < 303; ++j)
      set_key(p, j, bell_bf16s(random, 64, 1.0f), random_bf16s(random, 64, 90, 127 + static_cast<int>(j % 40)));
    visit_problem(visit, Kind::kHard, "value exponents far apart", "a right shift in place of the rounded product", p);
    for (int64_t j = 0; j < 303; ++j) set_key(p, j, zero, std::vector<uint16_t>(64, j % 2 ? 0x42FE : 0x42FD));
    visit_problem(visit, Kind::kHard, "equal keys, largest values", "sums beyond 2^24 rounded twice", p);
    const std::vector<uint16_t> tiny(64, 0x0001), ends(64, num::kAttentionRange.max_bits);
    for (int64_t j = 0; j < 303; ++j) set_key(p, j, j % 2 ? tiny : bell_bf16s(random, 64, 1.0f), j % 5 ? tiny : ends);
    visit_problem(visit, Kind::kHard, "values at the ends of their range", "exponents beyond int8, flushed subnormals", p);
  }
}

// Probabilities that are exact ties above an even integer, each shown alone by a value row of its own; found by search.
void probability_ties(const Visit<Fn>& visit) {
  num::PhiloxStream random(119);
  struct Tie {
    uint16_t q, k;  // queries and keys of 64 equal elements; the other key is 1
  };
  for (const int key_width : {8, 15}) {
    for (const Tie& tie : {Tie{0x3EE0, 0xBE0A}, Tie{0x3EED, 0xBDD6}}) {
      Problem p = make(random, {64, key_width}, 1, 1, 1);
      std::vector<uint16_t> one_hot(64, 0);
      one_hot[9] = 0x3F80;
      set_key(p, 0, std::vector<uint16_t>(64, 0x3F80), std::vector<uint16_t>(64, 0));
      set_key(p, 1, std::vector<uint16_t>(64, tie.k), one_hot);
      set_queries(p, std::vector<uint16_t>(64, tie.q));
      visit_problem(visit, Kind::kHard, "a probability that is a tie", "ties away from zero or upwards", p);
    }
  }
}

// Equal keys and values whose mean is a tie of bf16, for many counts of keys.
void quotient_ties(const Visit<Fn>& visit) {
  num::PhiloxStream random(120);
  const std::vector<uint16_t> zero(64, 0);
  for (int64_t count = 12; count <= 1000; count += count < 128 ? 4 : 44) {
    Problem p = make(random, {64, 15}, 1, 1, count - 1);
    for (int64_t j = 0; j < count; ++j) {
      std::vector<uint16_t> v;
      for (int i = 0; i < 64; ++i)
        v.push_back(num::float_to_bf16(static_cast<float>(64 + i % 60 + (j % 4 < 1 + i % 2 * 2 ? 1 : 0))));
      v[63] = 0x42FE;  // 127: every row's codes count single units
      set_key(p, j, zero, v);
    }
    set_queries(p, zero);
    visit_problem(visit, Kind::kHard, "means that are ties", "a reciprocal in place of a division", p);
  }
}

// Values that cancel: keys come in equal pairs with opposite values, so the partial sums pass 2^24 and the result is small.
void cancelling_values(const Visit<Fn>& visit) {
  num::PhiloxStream random(121);
  for (const int key_width : {8, 15}) {
    Problem p = make(random, {64, key_width}, 1, 2, 127);
    for (int64_t j = 0; j < 64; ++j) {
      const std::vector<uint16_t> k = bell_bf16s(random, 64, 0.05f);
      std::vector<uint16_t> v;
      for (int i = 0; i < 64; ++i) v.push_back(num::float_to_bf16(100.0f + static_cast<float>(random.below(28))));
      v[63] = 0x42FE;
      set_key(p, j, k, v);
      for (int i = 0; i < 63; ++i) {  // the first pair is 1 or 2 short of cancelling
        const float left_over = j == 0 ? 1.0f + static_cast<float>(i % 2) : 0.0f;
        v[static_cast<size_t>(i)] = num::float_to_bf16(left_over - num::bf16_to_float(v[static_cast<size_t>(i)]));
      }
      set_key(p, j + 64, k, v);
    }
    set_queries(p, bell_bf16s(random, 128, 1.0f));
    visit_problem(visit, Kind::kHard, "values that cancel", "values summed in fp32", p);
  }
}

void faults(const Visit<Fn>& visit) {
  num::PhiloxStream random(118);
  const std::vector<uint16_t> nan(64, 0x7FC0), huge(64, 0x7F00), fine(64, 0x3F80);
  for (const int key_width : {8, 15}) {
    Problem p = random_problem(random, {64, key_width}, 6, 2, 258, 0);
    set_key(p, 261, nan, fine);
    visit_problem(visit, Kind::kHard, "a NaN key that the first rows do not see", "a fault of another row", p);
    set_key(p, 261, fine, huge);
    visit_problem(visit, Kind::kHard, "a value above the range that the first rows do not see",
                  "a faulted value taken for zero", p);
    Problem w = random_problem(random, {64, key_width}, 6, 2, 258, 20);
    set_key(w, 241, nan, fine);
    visit_problem(visit, Kind::kHard, "a NaN key that leaves the window", "a fault outside the window", w);
    Problem q = random_problem(random, {64, key_width}, 3, 2, 140, 0);
    std::vector<uint16_t> queries = bell_bf16s(random, 3 * 2 * 64, 1.0f);
    queries[64 + 7] = 0x7F80;
    std::fill(queries.begin() + 256, queries.begin() + 320, uint16_t{0});
    set_queries(q, queries);
    visit_problem(visit, Kind::kHard, "a faulted query beside a zero one", "a fault of another head, a query scale of 0", q);
  }
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  shapes(visit);
  merges(visit);
  values(visit);
  probability_ties(visit);
  quotient_ties(visit);
  cancelling_values(visit);
  faults(visit);
}

}  // namespace zeroulp::ops::attention
