#include <cmath>

#include "ops/mutants/mutants.h"

namespace zeroulp::ops::mutants {
namespace {

using kv_cache::kBlock;
using kv_cache::Layout;
using View = kv_cache::View<std::byte>;

enum class Wrong {
  kTruncatedValues,  // codes of values truncated
  kTruncatedKeys,    // codes of keys truncated
  kLogExponent,      // the values' exponent by the library's log2 in fp32 and ceil
  kNearestExponent,  // ..., rounded to the nearest: clips
  kFirstSlotsScale,   // the first slot's key scale for every position of the block
  kHalvesExchanged    // the halves of a value row exchanged
};

int32_t code(float v, bool truncated) { return truncated ? static_cast<int32_t>(v) : num::rne(v); }

template <Wrong kWrong>
bool store(std::byte* bytes, const Layout& layout, int64_t slot, const uint16_t* k, const uint16_t* v) {
  const View block(bytes, layout);
  const quant_rows::Quantiser key = kv_cache::key_row(quant_rows::row_absmax(k, layout.d), layout.key_width);
  block.key_scales[slot] = kWrong == Wrong::kFirstSlotsScale && slot > 0 ? block.key_scales[0] : key.scale;
  for (int64_t i = 0; i < layout.d; ++i) {
    const float x = key.multiplier == 0 ? 0.0f : num::bf16_to_float(k[i]) * key.multiplier;
    block.set_key(layout, slot, i, code(x, kWrong == Wrong::kTruncatedKeys));
  }
  const uint16_t top = quant_rows::row_absmax(v, layout.d);
  kv_cache::ValueRow row = kv_cache::value_row(top);
  if ((kWrong == Wrong::kLogExponent || kWrong == Wrong::kNearestExponent) && row.factor != 0) {
    const float e = std::log2(num::bf16_to_float(top) / 127.0f);
    row.exponent = static_cast<int8_t>(kWrong == Wrong::kLogExponent ? std::ceil(e) : std::floor(e + 0.5f));
    row.factor = num::pow2(-row.exponent);
  }
  block.value_exponents[slot] = row.exponent;
  for (int64_t i = 0; i < layout.d; ++i) {
    const int64_t from = kWrong == Wrong::kHalvesExchanged ? (i + layout.d / 2) % layout.d : i;
    const int32_t q = row.factor == 0 ? 0 : code(num::bf16_to_float(v[from]) * row.factor, kWrong == Wrong::kTruncatedValues);
    block.values[i * kBlock + slot] = static_cast<int8_t>(q > 127 ? 127 : q < -127 ? -127 : q);
  }
  if (row.fault) block.key_scales[slot] = num::bf16_to_float(num::kBf16Nan);
  return !key.fault && !row.fault;
}

}  // namespace

std::span<const Variant<kv_cache::StoreFn>> of_kv_cache() {
  static constexpr Variant<kv_cache::StoreFn> kTable[] = {
      {"values truncated", Needs::kNothing, store<Wrong::kTruncatedValues>},
      {"keys truncated", Needs::kNothing, store<Wrong::kTruncatedKeys>},
      {"exponent by the nearest power", Needs::kNothing, store<Wrong::kNearestExponent>},
      {"scale of the block's first key", Needs::kNothing, store<Wrong::kFirstSlotsScale>},
      {"halves of the value exchanged", Needs::kNothing, store<Wrong::kHalvesExchanged>},
  };
  return kTable;
}

std::span<const Variant<kv_cache::StoreFn>> equivalents_of_kv_cache() {
  // ceil(log2(a / 127)) in fp32 for a of 8 significant bits: the quotient is a power of two only where a = 127 * 2^e, where it and its
  // logarithm are exact, and at least 2^-7 away from one elsewhere. All a: KvCache.LogarithmGivesTheSameExponentForBf16.
  static constexpr Variant<kv_cache::StoreFn> kTable[] = {{"exponent by the library's log2", Needs::kNothing, store<Wrong::kLogExponent>}};
  return kTable;
}

}  // namespace zeroulp::ops::mutants
