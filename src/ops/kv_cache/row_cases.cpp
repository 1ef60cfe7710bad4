#include "ops/kv_cache/row_cases.h"

#include <fmt/format.h>

#include "ops/case_inputs.h"

namespace zeroulp::ops::kv_cache {
namespace {

using namespace conformance;
using Rows = std::vector<uint16_t>;

void visit_rows(const Visit<RowsFn>& visit, Kind kind, const std::string& name, const std::string& catches, int64_t d, const Rows& k, const Rows& v) {
  const auto rows = static_cast<int64_t>(k.size()) / d;
  for (const int width : {8, 15}) {
    visit({kind, fmt::format("{}, {}-bit keys, {} rows of {}", name, width, rows, d), catches}, [&](RowsFn* run, Outputs& out) {
      Guarded<int16_t> key_codes(rows * d);
      Guarded<float> key_scales(rows);
      Guarded<int8_t> value_codes(rows * d), value_exponents(rows);
      Guarded<uint8_t> faults(std::vector<uint8_t>(static_cast<size_t>(rows), 0));
      run({k.data(), v.data(), rows, d, width, key_codes.data(), key_scales.data(), value_codes.data(), value_exponents.data(), faults.data()});
      out.add("key_codes", key_codes);
      out.add("key_scales", key_scales);
      out.add("value_codes", value_codes);
      out.add("value_exponents", value_exponents);
      out.add("faults", faults);
    });
  }
}

// Rows of one binade of largest magnitudes: every code of the value quantiser by every fraction of the row's top.
void whole_binade(const Visit<RowsFn>& visit) {
  constexpr int64_t kD = 1024;
  Rows k, v;
  for (uint16_t top = 0x3F80; top < 0x4000; ++top)
    for (int64_t i = 0; i < kD; ++i) {
      const auto x = static_cast<uint16_t>(i == 0 ? top : top - i);
      v.push_back(i % 2 ? x | 0x8000 : x);
      k.push_back(x);
    }
  visit_rows(visit, Kind::kExhaustive, "every fraction of the largest magnitude", "an exponent by log2, ties away from zero, another quantiser", kD, k, v);
}

void range_ends(const Visit<RowsFn>& visit) {
  const uint16_t tops[] = {num::kAttentionRange.min_bits, static_cast<uint16_t>(num::kAttentionRange.min_bits - 1), num::kAttentionRange.max_bits,
                           static_cast<uint16_t>(num::kAttentionRange.max_bits + 1), 0x0000, 0x8000, 0x0001, 0x7F7F, 0x7F80, 0xFF80, 0x7F81, 0xFFFF};
  constexpr int64_t kD = 6;
  Rows k, v;
  for (const uint16_t a : tops)
    for (const uint16_t b : tops)
      for (int64_t i = 0; i < kD; ++i) {
        k.push_back(i == kD - 1 ? a : 0);
        v.push_back(i == 0 ? b : 0);
      }
  visit_rows(visit, Kind::kHard, "ends of the range by each other", "a fault of a value row passed over, a zero row with an exponent, flushed subnormals", kD, k, v);
}

void ties(const Visit<RowsFn>& visit) {
  Rows v = {0x42FE};  // 127: the exponent is 0, and halves are ties
  for (int q = -126; q < 127; ++q) v.push_back(num::float_to_bf16(static_cast<float>(q) + 0.5f));
  const auto d = static_cast<int64_t>(v.size());
  visit_rows(visit, Kind::kHard, "every value a tie", "ties away from zero or upwards", d, v, v);
  Rows next = v;
  next[0] = 0x42FF;  // 127.5 needs the next exponent
  visit_rows(visit, Kind::kHard, "a largest value just above 127", "an exponent that clips", d, next, next);
}

}  // namespace

void store_rows(const RowsArgs& a) {
  const Layout layout{a.d, a.key_width};
  std::vector<std::byte> block(static_cast<size_t>(layout.bytes()));
  const View<const std::byte> view(block.data(), layout);
  for (int64_t row = 0; row < a.rows; ++row) {
    if (!store(block.data(), layout, 0, a.k + row * a.d, a.v + row * a.d)) a.faults[row] = 1;
    a.key_scales[row] = view.key_scales[0];
    a.value_exponents[row] = view.value_exponents[0];
    for (int64_t i = 0; i < a.d; ++i) {
      a.key_codes[row * a.d + i] = static_cast<int16_t>(a.key_width == 15 ? 128 * view.key_hi[i] + view.key_lo[i] : view.key_hi[i]);
      a.value_codes[row * a.d + i] = view.values[i * kBlock];
    }
  }
}

void row_cases(const Visit<RowsFn>& visit) {
  whole_binade(visit);
  range_ends(visit);
  ties(visit);
  num::PhiloxStream random(122);
  for (const int64_t d : {2, 6, 16, 30, 64, 80, 128, 256}) {
    const int64_t rows = 1 + random.below(5);
    visit_rows(visit, Kind::kRandom, "bell", "tails", d, bell_bf16s(random, rows * d, 1.5f), bell_bf16s(random, rows * d, 1.0f));
    visit_rows(visit, Kind::kRandom, "wide exponents", "tails, a neighbour's exponent", d, random_bf16s(random, rows * d, 80, 170), random_bf16s(random, rows * d, 80, 170));
  }
}

}  // namespace zeroulp::ops::kv_cache
