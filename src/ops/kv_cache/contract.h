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
  Like<int8_t>*key_hi, *key_lo, *values;
  Like<float>* key_scales;
  Like<int8_t>* value_exponents;
};

// Quantises one position's K and V head vectors (bf16 [d]) into slot `slot` of a block. Returns false when either is out of range
// (the slot then holds NaN scale, codes 0).
bool store(std::byte* block, const Layout& layout, int64_t slot, const uint16_t* k, const uint16_t* v);

}  // namespace zeroulp::ops::kv_cache
