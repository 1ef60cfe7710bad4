#include <algorithm>

#include "ops/kv_cache/contract.h"
#include "ops/quant_rows/contract.h"

namespace zeroulp::ops::kv_cache {
namespace {

using quant_rows::RowKind;

bool store_key(const View<std::byte>& block, const Layout& layout, int64_t slot, const uint16_t* k) {
  const uint16_t top = quant_rows::row_absmax(k, layout.d);
  const RowKind kind = quant_rows::classify(top, num::kAttentionRange);
  const float largest = num::bf16_to_float(top);
  const bool normal = kind == RowKind::kNormal;
  const float multiplier = normal ? num::quant_multiplier(largest, layout.key_width) : 0.0f;
  block.key_scales[slot] = normal                     ? num::quant_scale(largest, layout.key_width)
                           : kind == RowKind::kTiny ? 1.0f
                                                      : num::bf16_to_float(num::kBf16Nan);
  for (int64_t i = 0; i < layout.d; ++i) {
    const int32_t q = normal ? num::quant_code(num::bf16_to_float(k[i]), multiplier) : 0;
    const int64_t at = slot * layout.d + i;
    if (layout.key_width == 15) {
      block.key_hi[at] = static_cast<int8_t>(num::plane_hi(q));
      block.key_lo[at] = static_cast<int8_t>(num::plane_lo(q));
    } else {
      block.key_hi[at] = static_cast<int8_t>(q);
    }
  }
  return kind != RowKind::kFault;
}

bool store_value(const View<std::byte>& block, const Layout& layout, int64_t slot, const uint16_t* v) {
  const uint16_t top = quant_rows::row_absmax(v, layout.d);
  const RowKind kind = quant_rows::classify(top, num::kAttentionRange);
  const int e = kind == RowKind::kNormal ? num::pow2_scale_exponent(top) : 0;
  block.value_exponents[slot] = kind == RowKind::kNormal ? static_cast<int8_t>(e) : kZeroRow;
  for (int64_t i = 0; i < layout.d; ++i)
    block.values[i * kBlock + slot] =
        kind == RowKind::kNormal ? static_cast<int8_t>(num::rne(num::bf16_to_float(v[i]) * num::pow2(-e))) : int8_t{0};
  return kind != RowKind::kFault;
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
