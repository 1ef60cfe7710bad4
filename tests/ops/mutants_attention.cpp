#include <algorithm>
#include <array>
#include <cmath>

#include "ops/mutants.h"

namespace zeroulp::ops::mutants {
namespace {

using attention::Args;
using attention::kBlock;
using attention::kGroup;

enum class Wrong {
  kNothing,           // no fault: shows that the frame below is the rule
  kOneGroup,          // blocks merged one after another, no groups
  kBlocksFromWindow,  // blocks counted from the first visible key
  kDegreeFive,        // the other exponential
  kZeroRowCounts,     // a zero value row takes part in the block's exponent
  kNoCutoff,          // alignments beyond 64 still count
  kFutureKeys,        // every key of the last block
  kWindowOffByOne,
  kSumOfP,        // B from the values' weights
  kLowLowPlane,   // lo * lo not dropped
  kScalesJoined,  // u * c computed as acc * (sK * c)
  kReciprocal,    // O * (1 / L)
  kTiesAway,      // p and w rounded half away
  kContractedD,   // d = u * c - n with two roundings
  kFaultsUnseen,  // a faulted score counts as 0
  kFloatValues,   // A summed in fp32
};

struct Block {
  float n = 0;
  int f = 0;
  int64_t b = 0;
  std::vector<float> a;
  bool fault = false;
};

template <Wrong kWrong>
int64_t score(const Args& g, const int16_t* q, const kv_cache::View<const std::byte>& kv, int64_t slot) {
  const int64_t d = g.layout.d;
  int64_t acc = attention::raw_score(q, kv.key_hi + slot * d, kv.key_lo ? kv.key_lo + slot * d : nullptr, d);
  if (kWrong == Wrong::kLowLowPlane && kv.key_lo) {
    int64_t low = 0;
    for (int64_t i = 0; i < d; ++i) low += num::plane_lo(q[i]) * kv.key_lo[slot * d + i];
    acc += low / 128;
  }
  return acc;
}

int32_t rounded(float v, bool away) { return away ? static_cast<int32_t>(std::floor(v + 0.5f)) : num::rne(v); }

template <Wrong kWrong>
Block block_of(const Args& g, const int16_t* q, float c, const std::vector<int64_t>& keys) {
  Block s;
  s.a.assign(static_cast<size_t>(g.layout.d), 0.0f);
  std::vector<float> u;
  std::vector<int64_t> sums(s.a.size());
  int exponent = kv_cache::kZeroRow;
  const auto view = [&](int64_t key) {
    return kv_cache::View<const std::byte>(g.pages[key / kBlock] + g.page_offset, g.layout);
  };
  for (const int64_t key : keys) {
    const auto kv = view(key);
    const int64_t slot = key % kBlock;
    float uj = num::i2f(score<kWrong>(g, q, kv, slot)) * kv.key_scales[slot];
    if (kWrong == Wrong::kFaultsUnseen && !num::is_finite(uj)) uj = 0;
    s.fault |= !num::is_finite(uj);
    u.push_back(uj);
    const int e = kv.value_exponents[slot];
    exponent = std::max(exponent, kWrong == Wrong::kZeroRowCounts && e == kv_cache::kZeroRow ? 0 : e);
  }
  const float max_u = *std::max_element(u.begin(), u.end());
  s.fault |= !(std::fabs(c * max_u) < attention::kScoreLimit);
  if (s.fault) return s;
  s.n = attention::block_exponent_n(c, max_u);
  s.f = exponent == kv_cache::kZeroRow ? 0 : exponent;
  for (size_t j = 0; j < keys.size(); ++j) {
    const auto kv = view(keys[j]);
    const int64_t slot = keys[j] % kBlock;
    float d = std::fma(u[j], c, -s.n);
    if (kWrong == Wrong::kContractedD) d = u[j] * c - s.n;
    if (kWrong == Wrong::kScalesJoined) d = std::fma(num::i2f(score<kWrong>(g, q, kv, slot)), kv.key_scales[slot] * c, -s.n);
    const float t = attention::kProbabilityTop * (kWrong == Wrong::kDegreeFive ? num::exp2_5(d) : num::exp2_3(d));
    const int e = kv.value_exponents[slot];
    const bool away = kWrong == Wrong::kTiesAway;
    const int64_t w = rounded(t, away), p = e == kv_cache::kZeroRow ? 0 : rounded(t * num::pow2(e - s.f), away);
    s.b += kWrong == Wrong::kSumOfP ? p : w;
    for (size_t i = 0; i < sums.size(); ++i) {
      const int64_t product = p * kv.values[static_cast<int64_t>(i) * kBlock + slot];
      sums[i] += product;
      s.a[i] += static_cast<float>(product);
    }
  }
  if (kWrong != Wrong::kFloatValues)
    for (size_t i = 0; i < sums.size(); ++i) s.a[i] = num::i2f(sums[i]);
  return s;
}

struct Sums {
  attention::State state;
  std::vector<float> o;
};

template <Wrong kWrong>
attention::Alignment align(const attention::State& s, float n) {
  if (kWrong != Wrong::kNoCutoff || s.empty) return attention::align(s, n);
  const auto factor = [](float difference) { return num::pow2(static_cast<int>(std::max(difference, -126.0f))); };
  return n > s.n ? attention::Alignment{n, factor(s.n - n), 1.0f} : attention::Alignment{s.n, 1.0f, factor(n - s.n)};
}

template <Wrong kWrong>
void add(Sums& to, float n, const std::vector<float>& o, float l, int f) {
  const attention::Alignment al = align<kWrong>(to.state, n);
  for (size_t i = 0; i < to.o.size(); ++i) to.o[i] = std::fma(o[i], al.gain * num::pow2(f), to.o[i] * al.keep);
  to.state.l = std::fma(l, al.gain, to.state.l * al.keep);
  to.state.n = al.n;
  to.state.empty = false;
}

template <Wrong kWrong>
bool attend(const Args& g, int64_t position, const int16_t* q, float q_scale, uint16_t* out) {
  const float c = q_scale * g.score_constant;
  const int64_t window = std::max<int64_t>(1, g.window - (kWrong == Wrong::kWindowOffByOne));
  const int64_t first = g.window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
  const int64_t last = kWrong == Wrong::kFutureKeys
                           ? std::max(position, std::min(position / kBlock * kBlock + kBlock, g.first_position + g.rows) - 1)
                           : position;
  const int64_t origin = kWrong == Wrong::kBlocksFromWindow ? first : 0;
  Sums total{{}, std::vector<float>(static_cast<size_t>(g.layout.d), 0.0f)}, group = total;
  for (int64_t block = (first - origin) / kBlock; block <= (last - origin) / kBlock; ++block) {
    std::vector<int64_t> keys;
    for (int64_t key = origin + block * kBlock; key < origin + (block + 1) * kBlock; ++key)
      if (key >= first && key <= last) keys.push_back(key);
    const Block s = block_of<kWrong>(g, q, c, keys);
    if (s.fault) return false;
    add<kWrong>(kWrong == Wrong::kOneGroup ? total : group, s.n, s.a, num::i2f(s.b), s.f);
    if (kWrong != Wrong::kOneGroup && (block % kGroup == kGroup - 1 || block == (last - origin) / kBlock)) {
      add<kWrong>(total, group.state.n, group.o, group.state.l, 0);
      group = {{}, std::vector<float>(total.o.size(), 0.0f)};
    }
  }
  for (size_t i = 0; i < total.o.size(); ++i)
    out[i] =
        num::float_to_bf16(kWrong == Wrong::kReciprocal ? total.o[i] * (1.0f / total.state.l) : total.o[i] / total.state.l);
  return true;
}

template <Wrong kWrong>
void mutant(const Args& g) {
  for (int64_t row = 0; row < g.rows; ++row) {
    for (int64_t head = 0; head < g.group; ++head) {
      uint16_t* out = g.out + row * g.out_stride + head * g.layout.d;
      if (attend<kWrong>(g, g.first_position + row, g.q + row * g.q_stride + head * g.layout.d,
                         g.q_scales[row * g.q_scales_stride + head], out))
        continue;
      std::fill(out, out + g.layout.d, num::kBf16Nan);
      g.faults[row * g.faults_stride] = 1;
    }
  }
}

}  // namespace

void attention_without_fault(const Args& g) { mutant<Wrong::kNothing>(g); }

std::span<const Variant<attention::Fn>> of_attention() {
  static constexpr Variant<attention::Fn> kTable[] = {
      {"no groups of blocks", Needs::kNothing, mutant<Wrong::kOneGroup>},
      {"blocks from the window's start", Needs::kNothing, mutant<Wrong::kBlocksFromWindow>},
      {"the other exponential", Needs::kNothing, mutant<Wrong::kDegreeFive>},
      {"zero rows set the exponent", Needs::kNothing, mutant<Wrong::kZeroRowCounts>},
      {"no limit of 64", Needs::kNothing, mutant<Wrong::kNoCutoff>},
      {"keys of later positions", Needs::kNothing, mutant<Wrong::kFutureKeys>},
      {"window one short", Needs::kNothing, mutant<Wrong::kWindowOffByOne>},
      {"denominator from the values' weights", Needs::kNothing, mutant<Wrong::kSumOfP>},
      {"low planes multiplied", Needs::kNothing, mutant<Wrong::kLowLowPlane>},
      {"scales joined first", Needs::kNothing, mutant<Wrong::kScalesJoined>},
      {"times the reciprocal", Needs::kNothing, mutant<Wrong::kReciprocal>},
      {"ties away from zero", Needs::kNothing, mutant<Wrong::kTiesAway>},
      {"two roundings in d", Needs::kNothing, mutant<Wrong::kContractedD>},
      {"faults unseen", Needs::kNothing, mutant<Wrong::kFaultsUnseen>},
      {"values summed in fp32", Needs::kNothing, mutant<Wrong::kFloatValues>},
  };
  return kTable;
}

}  // namespace zeroulp::ops::mutants
