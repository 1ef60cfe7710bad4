// The integer KV cache (docs/contract.md, section 6): blocks of 128 positions, one per sequence, layer and KV head.
//
//   keys    hi plane  int8 [128][d]      K codes of 15 bits are 128 * hi + lo; of 8 bits they are hi alone
//           lo plane  int8 [128][d]      only at key width 15
//   values  int8 [d][128]                transposed: one output element reads its 128 codes in a row
//   key scales    fp32 [128]
//   value scales  int8 [128]             the exponent e of 2^e, or kZeroRow: the row is zero and left out of the block's exponent F
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "num/quant.h"
#include "ops/op.h"
#include "ops/quant_rows/contract.h"

namespace zeroulp::ops::kv_cache {

inline constexpr int64_t kBlock = 128;
inline constexpr int8_t kZeroRow = -128;

struct Layout {
  int64_t d = 0;
  int key_width = 15;  // 8 or 15

  ZU_HD constexpr int64_t key_plane_bytes() const { return kBlock * d; }
  ZU_HD constexpr int64_t key_lo() const { return key_plane_bytes(); }
  ZU_HD constexpr int64_t values() const { return key_plane_bytes() * (key_width == 15 ? 2 : 1); }
  ZU_HD constexpr int64_t key_scales() const { return values() + kBlock * d; }
  ZU_HD constexpr int64_t value_exponents() const { return key_scales() + kBlock * 4; }
  ZU_HD constexpr int64_t bytes() const { return value_exponents() + kBlock; }  // a multiple of 128
};

// A block's parts.
template <class Byte>
struct View {
  ZU_HD View(Byte* block, const Layout& l)
      : key_hi(cast<int8_t>(block)),
        key_lo(l.key_width == 15 ? cast<int8_t>(block + l.key_lo()) : nullptr),
        values(cast<int8_t>(block + l.values())),
        key_scales(cast<float>(block + l.key_scales())),
        value_exponents(cast<int8_t>(block + l.value_exponents())) {}
  template <class T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;
  template <class T>
  ZU_HD static Like<T>* cast(Byte* p) {
    return reinterpret_cast<Like<T>*>(p);
  }
  // One element of a key, whose code has the layout's width.
  ZU_HD void set_key(const Layout& l, int64_t slot, int64_t i, int32_t code) const {
    const int64_t at = slot * l.d + i;
    key_hi[at] = static_cast<int8_t>(l.key_width == 15 ? num::plane_hi(code) : code);
    if (l.key_width == 15) key_lo[at] = static_cast<int8_t>(num::plane_lo(code));
  }

  Like<int8_t>*key_hi, *key_lo, *values;
  Like<float>* key_scales;
  Like<int8_t>* value_exponents;
};

// How a key row with the largest magnitude `top` is stored.
ZU_HD inline quant_rows::Quantiser key_row(uint16_t top, int width) {
  constexpr num::RowRange range = num::kAttentionRange;
  return quant_rows::quantiser(top, width, range);
}

// The same for a value row: value_code(v, factor), all 0 when the factor is 0.
struct ValueRow {
  int8_t exponent;
  float factor;
  bool fault;
};
ZU_HD inline ValueRow value_row(uint16_t top) {
  constexpr num::RowRange range = num::kAttentionRange;
  const quant_rows::RowKind kind = quant_rows::classify(top, range);
  if (kind != quant_rows::RowKind::kNormal) return {kZeroRow, 0.0f, kind == quant_rows::RowKind::kFault};
  const int e = num::pow2_scale_exponent(top);
  return {static_cast<int8_t>(e), num::pow2(-e), false};
}
ZU_HD inline int8_t value_code(uint16_t v, float factor) {
  return factor == 0 ? int8_t{0} : static_cast<int8_t>(num::rne(num::bf16_to_float(v) * factor));
}

// Where a pass finds its blocks: those of row r's sequence are listed from blocks[begin[r]] on, each address being that of the page; a
// head's block is `offset` and its multiple of `head_stride` further on.
struct Pages {
  std::byte* const* blocks;
  const int32_t* begin;  // [rows]
  int64_t offset, head_stride;

  ZU_HD std::byte* block(int64_t row, int64_t index, int64_t head) const { return blocks[begin[row] + index] + offset + head * head_stride; }
};

// Quantises one position's K and V head vectors (bf16 [d]) into slot `slot` of a block. Returns false when either is out of range
// (the slot then holds NaN scale, codes 0).
using StoreFn = bool(std::byte* block, const Layout& layout, int64_t slot, const uint16_t* k, const uint16_t* v);
StoreFn store;

}  // namespace zeroulp::ops::kv_cache
