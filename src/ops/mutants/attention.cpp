#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/mutants/dot.h"
#include "ops/mutants/mutants.h"

// Compiled once for any processor and once with fma as an instruction: the same bits, several times as fast.
#define ZU_BODY [[gnu::always_inline]] inline

namespace zeroulp::ops::mutants {
namespace {

using attention::Args;
using attention::kBlock;
using attention::kGroup;

enum class Wrong {
  kNothing,           // no fault: shows that the frame below is the rule
  kOneGroup,          // blocks merged one after another, no groups
  kDescending,        // blocks and groups merged from the last to the first
  kBlocksFromWindow,  // blocks counted from the first visible key
  kDegreeFive,        // the other exponential
  kZeroRowCounts,     // a zero value row takes part in the block's exponent
  kNoCutoff,          // alignments beyond 64 still count
  kFutureKeys,        // every key of the last block
  kOwnKeyUnseen,      // a position does not see itself
  kWindowOffByOne,
  kPageBefore,     // every block but the first reads the page before its own
  kSumOfP,         // B from the values' weights
  kLowLowPlane,    // lo * lo not dropped
  kScalesJoined,   // u * c computed as acc * (sK * c)
  kConstantBf16,   // the score constant kept in bf16
  kEightBits,      // probabilities of 8 bits
  kReciprocal,     // O * (1 / L)
  kTiesAway,       // p and w rounded half away
  kTruncated,      // p and w truncated
  kContractedD,    // d = u * c - n with two roundings
  kFaultsUnseen,   // a faulted score counts as 0
  kFloatValues,    // A summed in fp32
  kKeysBackwards   // not wrong: the keys of a block from the last to the first
};

struct Block {
  float n = 0;
  int f = 0;
  int64_t b = 0;
  bool fault = false;
};

// A query with its planes.
struct Query {
  const int16_t* q;
  std::array<int16_t, attention::kMaxD> hi, lo;
};

using View = kv_cache::View<const std::byte>;

template <Wrong kWrong>
ZU_BODY int64_t score(const Args& g, const Query& query, const View& kv, int64_t slot) {
  const int64_t d = g.layout.d;
  int64_t acc = dot_s16_s8(query.q, kv.key_hi + slot * d, d);
  if (kv.key_lo == nullptr) return acc;
  acc += dot_s16_s8(query.hi.data(), kv.key_lo + slot * d, d);  // 128 hi * hi + lo * hi is q * hi
  if (kWrong == Wrong::kLowLowPlane) acc += dot_s16_s8(query.lo.data(), kv.key_lo + slot * d, d) / 128;
  return acc;
}

template <Wrong kWrong>
ZU_BODY int32_t rounded(float v) {
  if (kWrong == Wrong::kTiesAway) return static_cast<int32_t>(std::floor(v + 0.5f));
  if (kWrong == Wrong::kTruncated) return static_cast<int32_t>(v);
  return num::rne(v);
}

template <Wrong kWrong>
ZU_BODY View page_of(const Args& g, int64_t key) {
  const int64_t page = key / kBlock;
  return {g.pages[kWrong == Wrong::kPageBefore && page > 0 ? page - 1 : page] + g.page_offset, g.layout};
}

// The sums over keys [first, last], at most 128 of them, in one page or two. `a` has d elements.
template <Wrong kWrong>
ZU_BODY Block block_of(const Args& g, const Query& query, float c, int64_t first, int64_t last, float* a) {
  const int64_t d = g.layout.d, count = last - first + 1;
  Block s;
  std::array<float, kBlock> u;
  std::array<int16_t, kBlock> p;
  int exponent = kv_cache::kZeroRow;
  for (int64_t j = 0; j < count; ++j) {
    const View kv = page_of<kWrong>(g, first + j);
    const int64_t slot = (first + j) % kBlock;
    float uj = num::i2f(score<kWrong>(g, query, kv, slot)) * kv.key_scales[slot];
    if (kWrong == Wrong::kFaultsUnseen && !num::is_finite(uj)) uj = 0;
    s.fault |= !num::is_finite(uj);
    u[static_cast<size_t>(j)] = uj;
    const int e = kv.value_exponents[slot];
    exponent = std::max(exponent, kWrong == Wrong::kZeroRowCounts && e == kv_cache::kZeroRow ? 0 : e);
  }
  const float max_u = *std::max_element(u.begin(), u.begin() + count);
  s.fault |= !(std::fabs(c * max_u) < attention::kScoreLimit);
  if (s.fault) return s;
  s.n = attention::block_exponent_n(c, max_u);
  s.f = exponent == kv_cache::kZeroRow ? 0 : exponent;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t j = kWrong == Wrong::kKeysBackwards ? count - 1 - i : i;
    const View kv = page_of<kWrong>(g, first + j);
    const int64_t slot = (first + j) % kBlock;
    const float uj = u[static_cast<size_t>(j)];
    float x = std::fma(uj, c, -s.n);
    if (kWrong == Wrong::kContractedD) x = uj * c - s.n;
    if (kWrong == Wrong::kScalesJoined) x = std::fma(num::i2f(score<kWrong>(g, query, kv, slot)), kv.key_scales[slot] * c, -s.n);
    const float top = kWrong == Wrong::kEightBits ? 127.0f : attention::kProbabilityTop;
    const float t = top * (kWrong == Wrong::kDegreeFive ? num::exp2_5(x) : num::exp2_3(x));
    const int e = kv.value_exponents[slot];
    const int32_t w = rounded<kWrong>(t), pj = e == kv_cache::kZeroRow ? 0 : rounded<kWrong>(t * num::pow2(e - s.f));
    s.b += kWrong == Wrong::kSumOfP ? pj : w;
    p[static_cast<size_t>(j)] = static_cast<int16_t>(pj);
  }
  // Values lie by element, 128 keys in a row; a block that begins inside a page goes on in the next.
  const int64_t here = std::min(count, kBlock - first % kBlock);
  const View kv = page_of<kWrong>(g, first), next = page_of<kWrong>(g, last);
  for (int64_t i = 0; i < d; ++i) {
    const int8_t* v = kv.values + i * kBlock + first % kBlock;
    if (kWrong == Wrong::kFloatValues) {
      a[i] = 0;
      for (int64_t j = 0; j < count; ++j) a[i] += static_cast<float>(p[static_cast<size_t>(j)] * (j < here ? v[j] : next.values[i * kBlock + j - here]));
      continue;
    }
    int32_t sum = dot_s16_s8(p.data(), v, here);
    if (here < count) sum += dot_s16_s8(p.data() + here, next.values + i * kBlock, count - here);
    a[i] = num::i2f(sum);
  }
  return s;
}

struct Sums {
  attention::State state;
  std::vector<float> o;
};

template <Wrong kWrong>
ZU_BODY attention::Alignment align(const attention::State& s, float n) {
  if (kWrong != Wrong::kNoCutoff || s.empty) return attention::align(s, n);
  const auto factor = [](float difference) { return num::pow2(static_cast<int>(std::max(difference, -126.0f))); };
  return n > s.n ? attention::Alignment{n, factor(s.n - n), 1.0f} : attention::Alignment{s.n, 1.0f, factor(n - s.n)};
}

template <Wrong kWrong>
ZU_BODY void add(Sums& to, float n, const float* o, float l, int f) {
  const attention::Alignment al = align<kWrong>(to.state, n);
  const float gain = al.gain * num::pow2(f);
  for (size_t i = 0; i < to.o.size(); ++i) to.o[i] = std::fma(o[i], gain, to.o[i] * al.keep);
  to.state.l = std::fma(l, al.gain, to.state.l * al.keep);
  to.state.n = al.n;
  to.state.empty = false;
}

ZU_BODY void clear(Sums& s) {
  s.state = {};
  std::fill(s.o.begin(), s.o.end(), 0.0f);
}

struct Memory {
  Sums total, group;
  std::vector<float> a;
  Query query;
};

template <Wrong kWrong>
ZU_BODY bool attend(const Args& g, int64_t position, const int16_t* q, float q_scale, uint16_t* out, Memory& m) {
  const float constant = kWrong == Wrong::kConstantBf16 ? num::bf16_to_float(num::float_to_bf16(g.score_constant)) : g.score_constant;
  const float c = q_scale * constant;
  m.query.q = q;
  for (int64_t i = 0; i < g.layout.d; ++i) {
    m.query.hi[static_cast<size_t>(i)] = static_cast<int16_t>(num::plane_hi(q[i]));
    m.query.lo[static_cast<size_t>(i)] = static_cast<int16_t>(num::plane_lo(q[i]));
  }
  const int64_t window = std::max<int64_t>(1, g.window - (kWrong == Wrong::kWindowOffByOne));
  const int64_t first = g.window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
  int64_t last = position;
  if (kWrong == Wrong::kFutureKeys) last = std::max(position, std::min(position / kBlock * kBlock + kBlock, g.first_position + g.rows) - 1);
  if (kWrong == Wrong::kOwnKeyUnseen) last = std::max(first, position - 1);
  const int64_t origin = kWrong == Wrong::kBlocksFromWindow ? first : 0;
  const int64_t first_block = (first - origin) / kBlock, last_block = (last - origin) / kBlock;
  clear(m.total);
  clear(m.group);
  for (int64_t i = first_block; i <= last_block; ++i) {
    const int64_t block = kWrong == Wrong::kDescending ? last_block - (i - first_block) : i, base = origin + block * kBlock;
    const Block s = block_of<kWrong>(g, m.query, c, std::max(first, base), std::min(last, base + kBlock - 1), m.a.data());
    if (s.fault) return false;
    add<kWrong>(kWrong == Wrong::kOneGroup ? m.total : m.group, s.n, m.a.data(), num::i2f(s.b), s.f);
    const bool ends = kWrong == Wrong::kDescending ? block % kGroup == 0 || block == first_block : block % kGroup == kGroup - 1 || block == last_block;
    if (kWrong != Wrong::kOneGroup && ends) {
      add<kWrong>(m.total, m.group.state.n, m.group.o.data(), m.group.state.l, 0);
      clear(m.group);
    }
  }
  for (size_t i = 0; i < m.total.o.size(); ++i)
    out[i] = num::float_to_bf16(kWrong == Wrong::kReciprocal ? m.total.o[i] * (1.0f / m.total.state.l) : m.total.o[i] / m.total.state.l);
  return true;
}

template <Wrong kWrong>
ZU_BODY void run(const Args& g) {
  static thread_local Memory m;
  const auto d = static_cast<size_t>(g.layout.d);
  m.total.o.resize(d), m.group.o.resize(d), m.a.resize(d);
  for (int64_t row = 0; row < g.rows; ++row) {
    for (int64_t head = 0; head < g.group; ++head) {
      uint16_t* out = g.out + row * g.out_stride + head * g.layout.d;
      if (attend<kWrong>(g, g.first_position + row, g.q + row * g.q_stride + head * g.layout.d, g.q_scales[row * g.q_scales_stride + head], out, m))
        continue;
      std::fill(out, out + g.layout.d, num::kBf16Nan);
      g.faults[row * g.faults_stride] = 1;
    }
  }
}

#if defined(__x86_64__)
template <Wrong kWrong>
ZU_TARGET_AVX2 void run_avx2(const Args& g) {
  run<kWrong>(g);
}
#endif

template <Wrong kWrong>
void mutant(const Args& g) {
#if defined(__x86_64__)
  if (cpu_features().avx2) return run_avx2<kWrong>(g);
#endif
  run<kWrong>(g);
}

}  // namespace

void attention_without_fault(const Args& g) { mutant<Wrong::kNothing>(g); }

std::span<const Variant<attention::Fn>> of_attention() {
  static constexpr Variant<attention::Fn> kTable[] = {
      {"no groups of blocks", Needs::kNothing, mutant<Wrong::kOneGroup>},
      {"merged from the last block to the first", Needs::kNothing, mutant<Wrong::kDescending>},
      {"blocks from the window's start", Needs::kNothing, mutant<Wrong::kBlocksFromWindow>},
      {"the other exponential", Needs::kNothing, mutant<Wrong::kDegreeFive>},
      {"zero rows set the exponent", Needs::kNothing, mutant<Wrong::kZeroRowCounts>},
      {"no limit of 64", Needs::kNothing, mutant<Wrong::kNoCutoff>},
      {"keys of later positions", Needs::kNothing, mutant<Wrong::kFutureKeys>},
      {"own key unseen", Needs::kNothing, mutant<Wrong::kOwnKeyUnseen>},
      {"window one short", Needs::kNothing, mutant<Wrong::kWindowOffByOne>},
      {"the page before", Needs::kNothing, mutant<Wrong::kPageBefore>},
      {"denominator from the values' weights", Needs::kNothing, mutant<Wrong::kSumOfP>},
      {"low planes multiplied", Needs::kNothing, mutant<Wrong::kLowLowPlane>},
      {"scales joined first", Needs::kNothing, mutant<Wrong::kScalesJoined>},
      {"score constant kept in bf16", Needs::kNothing, mutant<Wrong::kConstantBf16>},
      {"probabilities of 8 bits", Needs::kNothing, mutant<Wrong::kEightBits>},
      {"times the reciprocal", Needs::kNothing, mutant<Wrong::kReciprocal>},
      {"ties away from zero", Needs::kNothing, mutant<Wrong::kTiesAway>},
      {"probabilities truncated", Needs::kNothing, mutant<Wrong::kTruncated>},
      {"two roundings in d", Needs::kNothing, mutant<Wrong::kContractedD>},
      {"faults unseen", Needs::kNothing, mutant<Wrong::kFaultsUnseen>},
      {"values summed in fp32", Needs::kNothing, mutant<Wrong::kFloatValues>},
  };
  return kTable;
}

std::span<const Variant<attention::Fn>> equivalents_of_attention() {
  // The sums of a block are integers: its keys have no order.
  static constexpr Variant<attention::Fn> kTable[] = {{"keys of a block backwards", Needs::kNothing, mutant<Wrong::kKeysBackwards>}};
  return kTable;
}

}  // namespace zeroulp::ops::mutants
