#include "num/sincos.h"

#include <array>
#include <bit>
#include <cstddef>

#include "base/check.h"
#include "num/bits.h"

namespace zeroulp::num {
namespace {

__extension__ typedef unsigned __int128 u128;

// floor(2/pi * 2^256), least significant limb first.
constexpr std::array<uint64_t, 4> kTwoOverPi = {0xFE5163ABDEBBC561, 0xDB6295993C439041, 0xFC2757D1F534DDC0, 0xA2F9836E4E441529};
// pi/4 as Q0.128.
constexpr u128 kQuarterPi = (static_cast<u128>(0xC90FDAA22168C234) << 64) | 0xC4C6628B80DC1CD1;

// The upper 128 bits of the 256-bit product: a product of Q0.128 fractions, rounded down.
u128 mul_high(u128 a, u128 b) {
  const uint64_t a0 = static_cast<uint64_t>(a), a1 = static_cast<uint64_t>(a >> 64);
  const uint64_t b0 = static_cast<uint64_t>(b), b1 = static_cast<uint64_t>(b >> 64);
  const u128 low = static_cast<u128>(a0) * b0, mid1 = static_cast<u128>(a1) * b0, mid2 = static_cast<u128>(a0) * b1;
  const u128 carry = (low >> 64) + static_cast<uint64_t>(mid1) + static_cast<uint64_t>(mid2);
  return static_cast<u128>(a1) * b1 + (mid1 >> 64) + (mid2 >> 64) + (carry >> 64);
}

// x = m * 2^-shift; x * 2/pi = whole + fraction with whole mod 4 and the fraction as Q0.128.
struct Reduced {
  unsigned quadrant;
  u128 fraction;
};
Reduced times_two_over_pi(uint64_t m, int shift) {
  std::array<uint64_t, 8> product{};  // m * 2/pi * 2^256, in 64-bit limbs; the upper three stay zero
  u128 carry = 0;
  for (size_t i = 0; i < 4; ++i) {
    carry += static_cast<u128>(m) * kTwoOverPi[i];
    product[i] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  product[4] = static_cast<uint64_t>(carry);
  const auto limb_at = [&](int bit) -> uint64_t {  // 64 bits from `bit` upwards
    const size_t limb = static_cast<size_t>(bit / 64);
    const int offset = bit % 64;
    if (limb >= product.size()) return 0;
    const uint64_t low = product[limb] >> offset;
    const uint64_t high = offset == 0 || limb + 1 >= product.size() ? 0 : product[limb + 1] << (64 - offset);
    return low | high;
  };
  const int point = 256 + shift;  // the binary point's place in `product`
  const u128 fraction = (static_cast<u128>(limb_at(point - 64)) << 64) | limb_at(point - 128);
  return {static_cast<unsigned>(limb_at(point) & 3), fraction};
}

// sin(t) and 1 - cos(t) for t in [0, pi/4] as Q0.128, by their series.
u128 sin_series(u128 t) {
  const u128 t2 = mul_high(t, t);
  u128 term = t, sum = t;
  for (unsigned k = 1; term != 0; ++k) {
    term = mul_high(term, t2) / (2 * k * (2 * k + 1));
    sum = k % 2 == 1 ? sum - term : sum + term;
  }
  return sum;
}
u128 one_minus_cos_series(u128 t) {
  const u128 t2 = mul_high(t, t);
  u128 term = t2 / 2, sum = term;
  for (unsigned k = 2; term != 0; ++k) {
    term = mul_high(term, t2) / ((2 * k - 1) * (2 * k));
    sum = k % 2 == 0 ? sum - term : sum + term;
  }
  return sum;
}

int leading_bit(u128 v) {
  const uint64_t high = static_cast<uint64_t>(v >> 64), low = static_cast<uint64_t>(v);
  return high != 0 ? 127 - std::countl_zero(high) : 63 - std::countl_zero(low);
}

// RNE to bf16 of v * 2^-128 * m * 2^e (m: 24 bits). v != 0. `one` stands for v = 2^128, which does not fit.
uint16_t round_to_bf16(bool negative, bool one, u128 v, uint32_t m, int e) {
  u128 value = m;
  int scale = e;
  if (!one) {
    const int drop = leading_bit(v) - 99;  // keep 100 bits, so that the product with m fits
    value = (drop >= 0 ? v >> drop : v << -drop) * m;
    scale = e + drop - 128;
  }
  const int top = leading_bit(value);
  const int low_bits = top - 7;  // below the 8 significant bits
  u128 kept = low_bits >= 0 ? value >> low_bits : value << -low_bits;
  if (low_bits > 0) {
    const u128 rest = value & ((static_cast<u128>(1) << low_bits) - 1), half = static_cast<u128>(1) << (low_bits - 1);
    if (rest > half || (rest == half && (kept & 1))) ++kept;
  }
  // The kept significand may have become 256: adding it with its hidden bit to the exponent field carries correctly.
  const int exponent = top + scale + 127;
  ZU_CHECK(exponent >= 1 && exponent < 254);
  const uint32_t bits = (static_cast<uint32_t>(exponent - 1) << 7) + static_cast<uint32_t>(kept);
  return static_cast<uint16_t>(bits | (negative ? 0x8000u : 0u));
}

}  // namespace

SinCosBf16 sincos_bf16(uint32_t position, float frequency, float factor) {
  ZU_CHECK(position < (1u << 29) && frequency >= 0x1p-60f && frequency < 0x1p20f && factor >= 0x1p-20f && factor <= 0x1p20f);
  const uint32_t factor_m = (bits_of(factor) & 0x7FFFFFu) | 0x800000u;
  const int factor_e = static_cast<int>(bits_of(factor) >> 23) - 150;
  if (position == 0) return {round_to_bf16(false, true, 0, factor_m, factor_e), 0};
  const uint64_t m = uint64_t{(bits_of(frequency) & 0x7FFFFFu) | 0x800000u} * position;
  const int shift = 150 - static_cast<int>(bits_of(frequency) >> 23);
  auto [quadrant, f] = times_two_over_pi(m, shift);
  const bool upper = (f >> 127) != 0;  // past the middle: measure from the next axis, backwards
  if (upper) {
    ++quadrant;
    f = -f;
  }
  const u128 t = mul_high(f, kQuarterPi) << 1;
  const u128 s = sin_series(t), c = one_minus_cos_series(t);
  const bool odd = (quadrant & 1) != 0;
  // cos(q pi/2 + t) and sin(q pi/2 + t); a backwards t flips the sign of sin(t).
  const bool sin_negative = odd ? (quadrant & 2) != 0 : ((quadrant & 2) != 0) != upper;
  const bool cos_negative = odd ? ((quadrant & 2) == 0) != upper : (quadrant & 2) != 0;
  const uint16_t of_sin = round_to_bf16(odd ? cos_negative : sin_negative, false, s, factor_m, factor_e);
  const uint16_t of_cos = round_to_bf16(odd ? sin_negative : cos_negative, c == 0, -c, factor_m, factor_e);
  return odd ? SinCosBf16{of_sin, of_cos} : SinCosBf16{of_cos, of_sin};
}

}  // namespace zeroulp::num
