#include "ops/kv_cache/contract.h"

namespace zeroulp::ops::kv_cache {
namespace {

bool store_key(const View<std::byte>& block, const Layout& layout, int64_t slot, const uint16_t* k) {
  const quant_rows::Quantiser row = key_row(quant_rows::row_absmax(k, layout.d), layout.key_width);
  block.key_scales[slot] = row.scale;
  for (int64_t i = 0; i < layout.d; ++i) block.set_key(layout, slot, i, quant_rows::code(k[i], row.multiplier));
  return !row.fault;
}

bool store_value(const View<std::byte>& block, const Layout& layout, int64_t slot, const uint16_t* v) {
  const ValueRow row = value_row(quant_rows::row_absmax(v, layout.d));
  block.value_exponents[slot] = row.exponent;
  for (int64_t i = 0; i < layout.d; ++i) block.values[i * kBlock + slot] = value_code(v[i], row.factor);
  return !row.fault;
}

}  // namespace

bool store(std::byte* block, const Layout& layout, int64_t slot, const uint16_t* k, const uint16_t* v) {
  const View<std::byte> view(block, layout);
  const bool key_good = store_key(view, layout, slot, k);
  const bool value_good = store_value(view, layout, slot, v);
  // A value row has no NaN code or exponent, so the key's scale carries its fault: whoever attends to this position meets it.
  if (!value_good) view.key_scales[slot] = num::bf16_to_float(num::kBf16Nan);
  return key_good && value_good;
}

}  // namespace zeroulp::ops::kv_cache
