// Eight consecutive values in a lane's registers: to symbols and rest planes, and back, for every type. symbols.cpp is the same for the CPU.
#pragma once

#include "codec/cuda/common.cuh"

namespace zeroulp::codec::cuda {

template <Type kType>
inline constexpr uint32_t kBytes = static_cast<uint32_t>(type_info(kType).bytes);
template <Type kType>
inline constexpr int kExponentBits = type_info(kType).exponent_bits;
template <Type kType>
inline constexpr uint32_t kSymbols = 1u << kExponentBits<kType>;
// Of the rest: byte planes, and bits of a value in the string behind them.
template <Type kType>
inline constexpr int kPlanes = rest_bits(type_info(kType)) / 8;
template <Type kType>
inline constexpr int kTail = rest_bits(type_info(kType)) % 8;

// rest_bytes() of format.h.
template <Type kType>
__host__ __device__ constexpr uint32_t rest_size(uint32_t n) {
  return n * kPlanes<kType> + string_bytes(n, kTail<kType>);
}

// Whether rest planes and first codes of a block of n values begin where whole words of eight values can be read and written.
template <Type kType>
__device__ inline bool parts_are_aligned(uint32_t n) {
  return n % 8 == 0 && rest_size<kType>(n) % 4 == 0;
}

template <Type kType>
struct Eight {
  uint32_t word[2 * kBytes<kType>];
};

template <Type kType>
__device__ inline Eight<kType> load_eight(const std::byte* from) {
  Eight<kType> v;
  if constexpr (kBytes<kType> == 1) {
    const uint2 x = *reinterpret_cast<const uint2*>(from);
    v.word[0] = x.x, v.word[1] = x.y;
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kBytes<kType> / 2; ++i) {
      const uint4 x = reinterpret_cast<const uint4*>(from)[i];
      v.word[4 * i] = x.x, v.word[4 * i + 1] = x.y, v.word[4 * i + 2] = x.z, v.word[4 * i + 3] = x.w;
    }
  }
  return v;
}

// Of eight values the first `valid`, the others 0.
template <Type kType>
__device__ inline Eight<kType> load_part(const std::byte* from, int valid) {
  if (valid == 0) return {};
  Eight<kType> v = load_eight<kType>(from);
#pragma unroll
  for (int w = 0; w < static_cast<int>(2 * kBytes<kType>); ++w) {
    const int bytes = valid * static_cast<int>(kBytes<kType>) - 4 * w;
    v.word[w] &= bytes >= 4 ? kAll : bytes <= 0 ? 0u : (1u << (8 * bytes)) - 1;
  }
  return v;
}

template <Type kType>
__device__ inline void store_eight(const Eight<kType>& v, std::byte* to, int valid) {
  if (valid == 8) {
    if constexpr (kBytes<kType> == 1) {
      __stcs(reinterpret_cast<uint2*>(to), make_uint2(v.word[0], v.word[1]));
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kBytes<kType> / 2; ++i) __stcs(reinterpret_cast<uint4*>(to) + i, make_uint4(v.word[4 * i], v.word[4 * i + 1], v.word[4 * i + 2], v.word[4 * i + 3]));
    }
    return;
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    if (e >= valid) continue;
    if constexpr (kBytes<kType> == 1) to[e] = static_cast<std::byte>(v.word[e / 4] >> (8 * (e % 4)));
    else if constexpr (kBytes<kType> == 2) reinterpret_cast<uint16_t*>(to)[e] = static_cast<uint16_t>(v.word[e / 2] >> (16 * (e % 2)));
    else reinterpret_cast<uint32_t*>(to)[e] = v.word[e];
  }
}

// Eight bytes to the upper bytes of halves.
__device__ inline Row row_of(uint2 bytes) {
  return {{__byte_perm(bytes.x, 0, 0x1404), __byte_perm(bytes.x, 0, 0x3424), __byte_perm(bytes.y, 0, 0x1404), __byte_perm(bytes.y, 0, 0x3424)}};
}
// The upper bytes of all halves: eight symbols or codes in order.
__device__ inline uint2 upper_bytes(const Row& t) {
  return make_uint2(__byte_perm(t.word[0], t.word[1], 0x7531), __byte_perm(t.word[2], t.word[3], 0x7531));
}

template <Type kType, bool kTable>
__device__ inline Row symbols_of(const Eight<kType>& v, uint2 table) {
  Row t;
  if constexpr (kBytes<kType> == 1) {
    constexpr uint32_t kShift = 7 - kExponentBits<kType>, kOnes = (kSymbols<kType> - 1) * 0x01010101u;
    t = row_of(make_uint2(v.word[0] >> kShift & kOnes, v.word[1] >> kShift & kOnes));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kType == Type::kBF16) t.word[i] = v.word[i] << 1;
      else if constexpr (kType == Type::kF16) t.word[i] = v.word[i] >> 2 & 0x1F001F00u;
      else t.word[i] = __byte_perm(v.word[2 * i] << 1, v.word[2 * i + 1] << 1, 0x7632);
    }
  }
  if (kTable) {
    const Row entries = row_of(table);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      t.word[i] = (t.word[i] | 0x00010000u) - entries.word[i];  // that bit is what the lower half may borrow
      if constexpr (kSymbols<kType> < 256) t.word[i] &= ((kSymbols<kType> - 1) << 8) * 0x00010001u;
    }
  }
  return t;
}

// A string of four codes, a byte each. Codes of 2 to 4 bits.
template <int kBits>
__device__ inline uint32_t join4(uint32_t bytes) {
  if (kBits == 2) return __dp4a(bytes, 0x40100401u, 0u);
  if (kBits == 3) return __dp4a(bytes, 0x00400801u, bytes >> 15 & 0xE00u);
  const uint32_t pairs = bytes | bytes >> 4;
  return __byte_perm(pairs, 0, 0x4420);
}
// A string of eight codes in the upper bytes of halves; lower bytes that are 0 but for kBits == 4 do not matter.
template <int kBits>
__device__ inline uint32_t join8(const Row& u) {
  if (kBits == 4) {
    const uint32_t p = __byte_perm(u.word[0], u.word[1], 0x7351), q = __byte_perm(u.word[2], u.word[3], 0x7351);
    return __byte_perm(p, q, 0x5410) + (__byte_perm(p, q, 0x7632) << 4);
  }
  const uint2 bytes = upper_bytes(u);
  return join4<kBits>(bytes.x) | join4<kBits>(bytes.y) << (4 * kBits);
}
// Eight codes of kBits to nibbles.
template <int kBits>
__device__ inline uint32_t nibbles(uint32_t s) {
  if (kBits == 4) return s;
  if (kBits == 3) {
    s = (s & 0x00000FFFu) | (s << 4 & 0x0FFF0000u);
    s = (s & 0x003F003Fu) | (s << 2 & 0x3F003F00u);
    return (s & 0x07070707u) | (s << 1 & 0x70707070u);
  }
  s = (s & 0x000000FFu) | (s << 8 & 0x00FF0000u);
  s = (s & 0x000F000Fu) | (s << 4 & 0x0F000F00u);
  return (s & 0x03030303u) | (s << 2 & 0x30303030u);
}
// Eight nibbles to bytes.
__device__ inline uint2 bytes_of(uint32_t nibbles) {
  const uint32_t even = nibbles & 0x0F0F0F0Fu, odd = nibbles >> 4 & 0x0F0F0F0Fu;
  return make_uint2(__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362));
}

// What a value has besides its exponent: eight bytes of each plane, and a string of the upper bits.
template <Type kType>
struct Rest {
  uint2 plane[kPlanes<kType> == 0 ? 1 : kPlanes<kType>];
  uint32_t tail;
};

template <Type kType>
__device__ inline Rest<kType> rest_of(const Eight<kType>& v) {
  Rest<kType> rest;
  if constexpr (kBytes<kType> == 1) {  // the mantissa and, below it, the sign
    constexpr uint32_t kMantissa = (1u << (7 - kExponentBits<kType>)) - 1;
    const auto four = [](uint32_t w) { return join4<kTail<kType>>((w & kMantissa * 0x01010101u) << 1 | (w >> 7 & 0x01010101u)); };
    rest.tail = four(v.word[0]) | four(v.word[1]) << (4 * kTail<kType>);
  } else if constexpr (kBytes<kType> == 2) {  // the lower bytes of the values rotated left by one
    const auto four = [](uint32_t a, uint32_t b) {
      const uint32_t mantissas = __byte_perm(a << 1, b << 1, 0x6420), signs = __byte_perm(a, b, 0x7531) >> 7;
      return (mantissas & 0xFEFEFEFEu) | (signs & 0x01010101u);
    };
    rest.plane[0] = make_uint2(four(v.word[0], v.word[1]), four(v.word[2], v.word[3]));
    if constexpr (kType == Type::kF16) {
      Row upper;
#pragma unroll
      for (int i = 0; i < 4; ++i) upper.word[i] = v.word[i] << 1 & 0x07000700u;
      rest.tail = join8<3>(upper);
    }
  } else {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t r[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) r[i] = __funnelshift_l(v.word[4 * h + i], v.word[4 * h + i], 1);
      const uint32_t low01 = __byte_perm(r[0], r[1], 0x5140), low23 = __byte_perm(r[2], r[3], 0x5140);
      const uint32_t planes[3] = {__byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632), __byte_perm(__byte_perm(r[0], r[1], 0x7362), __byte_perm(r[2], r[3], 0x7362), 0x5410)};
#pragma unroll
      for (int p = 0; p < 3; ++p) (h == 0 ? rest.plane[p].x : rest.plane[p].y) = planes[p];
    }
  }
  return rest;
}

// Upper bytes (eight) over lower bytes (eight) to halves that are rotated back. Rotating two values as one word right by one brings each the
// other's sign, so signs change places first.
__device__ inline Eight<Type::kBF16> merge_halves(uint2 lower, uint2 upper) {
  Eight<Type::kBF16> v;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t r = i == 0 ? lower.x : lower.y, s = i == 0 ? upper.x : upper.y;
    const uint32_t crossed = (r & 0xFEFEFEFEu) | (__byte_perm(r, 0, 0x2301) & 0x01010101u);
    const uint32_t low = __byte_perm(crossed, s, 0x5140), high = __byte_perm(crossed, s, 0x7362);
    v.word[2 * i] = __funnelshift_r(low, low, 1);
    v.word[2 * i + 1] = __funnelshift_r(high, high, 1);
  }
  return v;
}

// The inverse of symbols_of() without a table and rest_of().
template <Type kType>
__device__ inline Eight<kType> merge(const Rest<kType>& rest, uint2 symbols) {
  Eight<kType> v;
  if constexpr (kBytes<kType> == 1) {
    constexpr uint32_t kMantissa = (1u << (7 - kExponentBits<kType>)) - 1;
    const uint2 r = bytes_of(nibbles<kTail<kType>>(rest.tail));
    const auto four = [](uint32_t s, uint32_t r4) { return s << (7 - kExponentBits<kType>) | (r4 >> 1 & kMantissa * 0x01010101u) | (r4 & 0x01010101u) << 7; };
    v.word[0] = four(symbols.x, r.x), v.word[1] = four(symbols.y, r.y);
  } else if constexpr (kType == Type::kBF16) {
    v = merge_halves(rest.plane[0], symbols);
  } else if constexpr (kType == Type::kF16) {
    const uint2 bits = bytes_of(nibbles<3>(rest.tail));
    const Eight<Type::kBF16> halves = merge_halves(rest.plane[0], make_uint2(symbols.x << 3 | bits.x, symbols.y << 3 | bits.y));
#pragma unroll
    for (int i = 0; i < 4; ++i) v.word[i] = halves.word[i];
  } else {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t p[3];
#pragma unroll
      for (int i = 0; i < 3; ++i) p[i] = h == 0 ? rest.plane[i].x : rest.plane[i].y;
      const uint32_t s = h == 0 ? symbols.x : symbols.y;
      const uint32_t low01 = __byte_perm(p[0], p[1], 0x5140), high01 = __byte_perm(p[2], s, 0x5140);
      const uint32_t low23 = __byte_perm(p[0], p[1], 0x7362), high23 = __byte_perm(p[2], s, 0x7362);
      const uint32_t r[4] = {__byte_perm(low01, high01, 0x5410), __byte_perm(low01, high01, 0x7632), __byte_perm(low23, high23, 0x5410), __byte_perm(low23, high23, 0x7632)};
#pragma unroll
      for (int i = 0; i < 4; ++i) v.word[4 * h + i] = __funnelshift_r(r[i], r[i], 1);
    }
  }
  return v;
}

}  // namespace zeroulp::codec::cuda
