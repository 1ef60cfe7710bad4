// XXH3-64 (Y. Collet, xxHash 0.8; seed 0, default secret) in pieces that a group of threads can share: sums over the 16 stripes of a KiB do
// not depend on order, and only the scramble after each KiB is sequential. Plain integer functions for host and device; the library
// itself serves the CPU, and tests hold these against it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/format.h"

namespace zeroulp::codec::xxh3 {

inline constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87u, kPrime2 = 0xC2B2AE3D27D4EB4Fu, kPrime3 = 0x165667B19E3779F9u,
                          kPrime4 = 0x85EBCA77C2B2AE63u, kPrime5 = 0x27D4EB2F165667C5u;
inline constexpr uint32_t kPrime32_1 = 0x9E3779B1u, kPrime32_2 = 0x85EBCA77u, kPrime32_3 = 0xC2B2AE3Du;
inline constexpr uint32_t kStripe = 64, kKib = 1024, kShort = 240;
inline constexpr uint32_t kLastSecret = 121, kScrambleSecret = 128, kMergeSecret = 11;  // byte offsets

// The default secret as little-endian words.
struct Secret {
  uint64_t word[24];
};
ZU_HOST_DEVICE constexpr Secret secret_words() {
  return {{
    0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE, 0x1F67B3B7A4A44072,
    0x78E5C0CC4EE679CB, 0x2172FFCC7DD05A82, 0x8E2443F7744608B8, 0x4C263A81E69035E0,
    0xCB00C391BB52283C, 0xA32E531B8B65D088, 0x4EF90DA297486471, 0xD8ACDEA946EF1938,
    0x3F349CE33F76FAA8, 0x1D4F0BC7C7BBDCF9, 0x3159B4CD4BE0518A, 0x647378D9C97E9FC8,
    0xC3EBD33483ACC5EA, 0xEB6313FAFFA081C5, 0x49DAF0B751DD0D17, 0x9E68D429265516D3,
    0xFCA1477D58BE162B, 0xCE31D07AD1B8F88F, 0x280416958F3ACB45, 0x7E404BBBCAFBD7AF}};
}

// Eight bytes of the secret from any offset up to 184.
ZU_HOST_DEVICE inline uint64_t secret(uint32_t offset) {
  static constexpr Secret words = secret_words();
  const uint32_t i = offset / 8, shift = offset % 8 * 8;
  return shift == 0 ? words.word[i] : words.word[i] >> shift | words.word[i + 1] << (64 - shift);
}

ZU_HOST_DEVICE inline uint64_t read64(const std::byte* p) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(p[i]) << (8 * i);
  return value;
}
ZU_HOST_DEVICE inline uint32_t read32(const std::byte* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
}

ZU_HOST_DEVICE inline uint64_t fold(uint64_t a, uint64_t b) {  // the halves of the 128-bit product, xored
#if defined(__CUDA_ARCH__)
  return (a * b) ^ __umul64hi(a, b);
#else
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#endif
}
ZU_HOST_DEVICE inline uint64_t avalanche(uint64_t h) {
  h = (h ^ h >> 37) * 0x165667919E3779F9u;
  return h ^ h >> 32;
}
ZU_HOST_DEVICE inline uint64_t avalanche64(uint64_t h) {
  h = (h ^ h >> 33) * kPrime2;
  h = (h ^ h >> 29) * kPrime3;
  return h ^ h >> 32;
}
ZU_HOST_DEVICE inline uint64_t mix16(const std::byte* p, uint32_t offset) { return fold(read64(p) ^ secret(offset), read64(p + 8) ^ secret(offset + 8)); }
ZU_HOST_DEVICE inline uint64_t rotate(uint64_t x, int n) { return x << n | x >> (64 - n); }
ZU_HOST_DEVICE inline uint64_t swap_bytes(uint64_t x) {
  uint64_t swapped = 0;
  for (int i = 0; i < 8; ++i) swapped = swapped << 8 | (x >> (8 * i) & 255);
  return swapped;
}

// Up to 240 bytes.
ZU_HOST_DEVICE inline uint64_t of_short(const std::byte* p, uint32_t length) {
  if (length == 0) return avalanche64(secret(56) ^ secret(64));
  if (length <= 3) {
    const uint32_t first = static_cast<uint32_t>(p[0]), middle = static_cast<uint32_t>(p[length / 2]), last = static_cast<uint32_t>(p[length - 1]);
    const uint64_t key = (secret(0) ^ secret(0) >> 32) & 0xFFFFFFFFu;
    return avalanche64((first << 16 | middle << 24 | last | length << 8) ^ key);
  }
  if (length <= 8) {
    uint64_t h = (read32(p + length - 4) + (static_cast<uint64_t>(read32(p)) << 32)) ^ secret(8) ^ secret(16);
    h ^= rotate(h, 49) ^ rotate(h, 24);
    h *= 0x9FB21C651E98DF25u;
    h ^= (h >> 35) + length;
    h *= 0x9FB21C651E98DF25u;
    return h ^ h >> 28;
  }
  if (length <= 16) {
    const uint64_t low = read64(p) ^ secret(24) ^ secret(32), high = read64(p + length - 8) ^ secret(40) ^ secret(48);
    return avalanche(length + swap_bytes(low) + high + fold(low, high));
  }
  uint64_t h = length * kPrime1;
  if (length <= 128) {
    for (uint32_t pairs = (length - 1) / 32, i = 0; i <= pairs; ++i)
      h += mix16(p + 16 * i, 32 * i) + mix16(p + length - 16 * (i + 1), 32 * i + 16);
    return avalanche(h);
  }
  for (uint32_t i = 0; i < 8; ++i) h += mix16(p + 16 * i, 16 * i);
  h = avalanche(h);
  for (uint32_t i = 8; i < length / 16; ++i) h += mix16(p + 16 * i, 16 * (i - 8) + 3);
  return avalanche(h + mix16(p + length - 16, 136 - 17));
}

// Above 240 bytes there are eight accumulators. A stripe of 64 bytes adds to accumulator i the product of the halves of its word i under
// the key, and to accumulator i ^ 1 the word itself.
ZU_HOST_DEVICE constexpr uint64_t start(uint32_t lane) {
  switch (lane) {
    case 0: return kPrime32_3;
    case 1: return kPrime1;
    case 2: return kPrime2;
    case 3: return kPrime3;
    case 4: return kPrime4;
    case 5: return kPrime32_2;
    case 6: return kPrime5;
    default: return kPrime32_1;
  }
}
ZU_HOST_DEVICE inline uint64_t product(uint64_t word, uint64_t key) {
  const uint64_t keyed = word ^ key;
  return static_cast<uint64_t>(static_cast<uint32_t>(keyed)) * static_cast<uint32_t>(keyed >> 32);
}
ZU_HOST_DEVICE inline uint64_t scramble(uint64_t sum, uint32_t lane) { return (sum ^ sum >> 47 ^ secret(kScrambleSecret + 8 * lane)) * kPrime32_1; }
// The contribution of accumulators 2i and 2i + 1 to the result; the four are added to length * kPrime1 and go through avalanche().
ZU_HOST_DEVICE inline uint64_t merged(uint64_t even, uint64_t odd, uint32_t i) {
  return fold(even ^ secret(kMergeSecret + 16 * i), odd ^ secret(kMergeSecret + 16 * i + 8));
}
// Of `length` > 240 bytes: KiB that are followed by a scramble, and stripes behind them but for the last 64 bytes, which always come at the end.
ZU_HOST_DEVICE inline uint32_t full_kib(uint32_t length) { return (length - 1) / kKib; }
ZU_HOST_DEVICE inline uint32_t loose_stripes(uint32_t length) { return (length - 1 - full_kib(length) * kKib) / kStripe; }

// The result from the eight accumulators.
ZU_HOST_DEVICE inline uint64_t finish(const uint64_t sums[8], uint32_t length) {
  uint64_t h = length * kPrime1;
  for (uint32_t i = 0; i < 4; ++i) h += merged(sums[2 * i], sums[2 * i + 1], i);
  return avalanche(h);
}

// The whole by one thread.
ZU_HOST_DEVICE inline uint64_t of(const std::byte* p, uint32_t length) {
  if (length <= kShort) return of_short(p, length);
  uint64_t sums[8];
  for (uint32_t i = 0; i < 8; ++i) sums[i] = start(i);
  const auto add = [&](const std::byte* stripe, uint32_t offset) {
    for (uint32_t i = 0; i < 8; ++i) {
      sums[i] += product(read64(stripe + 8 * i), secret(offset + 8 * i));
      sums[i ^ 1] += read64(stripe + 8 * i);
    }
  };
  for (uint32_t k = 0; k < full_kib(length); ++k) {
    for (uint32_t s = 0; s < 16; ++s) add(p + k * kKib + s * kStripe, 8 * s);
    for (uint32_t i = 0; i < 8; ++i) sums[i] = scramble(sums[i], i);
  }
  for (uint32_t s = 0; s < loose_stripes(length); ++s) add(p + full_kib(length) * kKib + s * kStripe, 8 * s);
  add(p + length - kStripe, kLastSecret);
  return finish(sums, length);
}

}  // namespace zeroulp::codec::xxh3
