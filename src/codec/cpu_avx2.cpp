// AVX2 and BMI2: 32 values at a time, and 8 where bits are gathered or spread.
#include <algorithm>
#include <cstring>

#include "codec/kernels.h"
#include "codec/xxh3.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <xxhash.h>

#define ZU_AVX2 __attribute__((target("avx2,bmi2,popcnt")))

namespace zeroulp::codec {
namespace {

ZU_AVX2 inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
ZU_AVX2 inline void store(void* to, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(to), x); }
ZU_AVX2 inline __m256i all(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
ZU_AVX2 inline uint64_t load64(const void* from) {
  uint64_t x;
  std::memcpy(&x, from, 8);
  return x;
}

// 32 values: the rotated ones' lower and upper bytes; and back.
struct Planes {
  __m256i rest, symbols;
};
ZU_AVX2 inline Planes split32(const std::byte* raw) {
  const __m256i low = _mm256_set1_epi16(0xFF), a = load(raw), b = load(raw + 32);
  const __m256i x = _mm256_or_si256(_mm256_slli_epi16(a, 1), _mm256_srli_epi16(a, 15)), y = _mm256_or_si256(_mm256_slli_epi16(b, 1), _mm256_srli_epi16(b, 15));
  return {_mm256_permute4x64_epi64(_mm256_packus_epi16(_mm256_and_si256(x, low), _mm256_and_si256(y, low)), 0xD8),
          _mm256_permute4x64_epi64(_mm256_packus_epi16(_mm256_srli_epi16(x, 8), _mm256_srli_epi16(y, 8)), 0xD8)};
}
ZU_AVX2 inline void merge32(Planes p, std::byte* raw) {
  const __m256i r = _mm256_permute4x64_epi64(p.rest, 0xD8), s = _mm256_permute4x64_epi64(p.symbols, 0xD8);
  const __m256i x = _mm256_unpacklo_epi8(r, s), y = _mm256_unpackhi_epi8(r, s);
  store(raw, _mm256_or_si256(_mm256_srli_epi16(x, 1), _mm256_slli_epi16(x, 15)));
  store(raw + 32, _mm256_or_si256(_mm256_srli_epi16(y, 1), _mm256_slli_epi16(y, 15)));
}

ZU_AVX2 void split_bf16(const std::byte* raw, uint32_t n, std::byte* rest, uint8_t* symbols) {
  uint32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const Planes p = split32(raw + 2 * i);
    store(rest + i, p.rest);
    store(symbols + i, p.symbols);
  }
  kReference.split_bf16(raw + 2 * i, n - i, rest + i, symbols + i);
}

ZU_AVX2 void merge_bf16(const std::byte* rest, const uint8_t* symbols, uint32_t n, std::byte* raw) {
  uint32_t i = 0;
  for (; i + 32 <= n; i += 32) merge32({load(rest + i), load(symbols + i)}, raw + 2 * i);
  kReference.merge_bf16(rest + i, symbols + i, n - i, raw + 2 * i);
}

// Appends the bytes of x whose mask byte is FF.
ZU_AVX2 inline void append(__m256i x, __m256i mask, uint8_t* left, uint32_t& count) {
  alignas(32) uint64_t values[4], masks[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(values), x);
  _mm256_store_si256(reinterpret_cast<__m256i*>(masks), mask);
  for (int q = 0; q < 4; ++q) {
    const uint64_t found = _pext_u64(values[q], masks[q]);
    std::memcpy(left + count, &found, 8);
    count += static_cast<uint32_t>(_mm_popcnt_u64(masks[q])) / 8;
  }
}

// The next symbols of `left` in the bytes whose mask byte is FF.
ZU_AVX2 inline __m256i take(__m256i known, __m256i mask, const uint8_t*& left) {
  alignas(32) uint64_t masks[4], values[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(masks), mask);
  for (int q = 0; q < 4; ++q) {
    values[q] = _pdep_u64(load64(left), masks[q]);
    left += _mm_popcnt_u64(masks[q]) / 8;
  }
  return _mm256_blendv_epi8(known, load(values), mask);
}

ZU_AVX2 uint32_t encode_w4(const std::byte* raw, uint32_t n, uint8_t begin, std::byte* rest, std::byte* codes, uint8_t* left, Soon& soon) {
  Soon ahead = soon;
  const __m256i first = all(begin), fifteen = all(15), weights = _mm256_set1_epi16(0x1001);
  uint32_t count = 0, i = 0;
  for (; i + 32 <= n; i += 32) {
    will_write(rest + i + kNextPayload), will_write(codes + i / 2 + kNextPayload);
    if (i % 64 == 0) ask(ahead);
    const Planes p = split32(raw + 2 * i);
    store(rest + i, p.rest);
    const __m256i d = _mm256_sub_epi8(p.symbols, first), c = _mm256_min_epu8(d, fifteen), out = _mm256_cmpeq_epi8(c, fifteen);
    const __m256i pairs = _mm256_maddubs_epi16(c, weights);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i / 2), _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0xD8)));
    if (!_mm256_testz_si256(out, out)) append(p.symbols, out, left, count);
  }
  soon = ahead;
  return count + kReference.encode_w4(raw + 2 * i, n - i, begin, rest + i, codes + i / 2, left + count, soon);
}

ZU_AVX2 uint32_t decode_w4(const std::byte* rest, const std::byte* codes, uint32_t n, uint8_t begin, const uint8_t* left, std::byte* raw, Soon& soon) {
  Soon ahead = soon;
  const __m256i first = all(begin), fifteen = all(15);
  const uint8_t* const start = left;
  uint32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    if (i % 64 == 0 || i % 128 == 32) ask<3>(ahead);
    const __m256i pairs = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i / 2)));
    const __m256i c = _mm256_and_si256(_mm256_or_si256(pairs, _mm256_slli_epi16(pairs, 4)), fifteen), out = _mm256_cmpeq_epi8(c, fifteen);
    __m256i s = _mm256_add_epi8(c, first);
    if (!_mm256_testz_si256(out, out)) s = take(s, out, left);
    merge32({load(rest + i), s}, raw + 2 * i);
  }
  soon = ahead;
  return static_cast<uint32_t>(left - start) + kReference.decode_w4(rest + i, codes + i / 2, n - i, begin, left, raw + 2 * i, soon);
}

ZU_AVX2 uint32_t code(const uint8_t* symbols, uint32_t n, Window w, uint8_t* codes, uint8_t* left) {
  const __m256i begin = all(w.begin), last = all(w.width + w.hole_width - 1), width = all(w.width), hole = all(w.hole), hole_width = all(w.hole_width),
                hole_last = all(w.hole_width - 1), has_hole = w.hole_width == 0 ? _mm256_setzero_si256() : all(0xFF);
  uint32_t count = 0, i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i s = load(symbols + i), d = _mm256_sub_epi8(s, begin), from_hole = _mm256_sub_epi8(s, hole);
    const __m256i inside = _mm256_cmpeq_epi8(_mm256_min_epu8(d, last), d);
    const __m256i above = _mm256_cmpeq_epi8(_mm256_max_epu8(s, hole), s);
    const __m256i in_hole = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_min_epu8(from_hole, hole_last), from_hole), has_hole);
    const __m256i known = _mm256_andnot_si256(in_hole, inside);
    const __m256i number = _mm256_sub_epi8(d, _mm256_and_si256(above, hole_width));
    store(codes + i, _mm256_blendv_epi8(width, number, known));
    const __m256i out = _mm256_cmpeq_epi8(known, _mm256_setzero_si256());
    if (!_mm256_testz_si256(out, out)) append(s, out, left, count);
  }
  return count + kReference.code(symbols + i, n - i, w, codes + i, left + count);
}

ZU_AVX2 void decode(const uint8_t* codes, uint32_t n, Window w, const uint8_t* left, uint8_t* symbols) {
  const __m256i begin = all(w.begin), width = all(w.width), hole = all(w.hole), hole_width = all(w.hole_width);
  uint32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i c = load(codes + i), s = _mm256_add_epi8(c, begin), out = _mm256_cmpeq_epi8(c, width);
    const __m256i above = _mm256_cmpeq_epi8(_mm256_max_epu8(s, hole), s);
    const __m256i known = _mm256_add_epi8(s, _mm256_and_si256(above, hole_width));
    store(symbols + i, _mm256_testz_si256(out, out) ? known : take(known, out, left));
  }
  kReference.decode(codes + i, n - i, w, left, symbols + i);
}

ZU_AVX2 uint32_t count(const uint8_t* codes, uint32_t n, uint8_t value) {
  const __m256i v = _mm256_set1_epi8(static_cast<char>(value));
  uint32_t found = 0, i = 0;
  for (; i + 32 <= n; i += 32) found += static_cast<uint32_t>(_mm_popcnt_u32(static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(codes + i), v)))));
  return found + kReference.count(codes + i, n - i, value);
}

template <int kBits>
ZU_AVX2 void pack_bits(const uint8_t* codes, uint32_t n, std::byte* to) {
  constexpr uint64_t kOnes = 0x0101010101010101u * ((1u << kBits) - 1);
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8, to += kBits) {
    const uint64_t string = _pext_u64(load64(codes + i), kOnes);
    std::memcpy(to, &string, kBits);
  }
  kReference.pack(codes + i, n - i, kBits, to);
}

template <int kBits>
ZU_AVX2 void unpack_bits(const std::byte* from, uint32_t n, uint8_t* codes) {
  constexpr uint64_t kOnes = 0x0101010101010101u * ((1u << kBits) - 1);
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8, from += kBits) {
    uint64_t string = 0;
    std::memcpy(&string, from, kBits);
    const uint64_t eight = _pdep_u64(string, kOnes);
    std::memcpy(codes + i, &eight, 8);
  }
  kReference.unpack(from, n - i, kBits, codes + i);
}

ZU_AVX2 inline int least_of(__m256i y) {
  const __m128i z = _mm_min_epu8(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
  return _mm_extract_epi16(_mm_minpos_epu16(_mm_min_epu8(z, _mm_srli_epi16(z, 8))), 0);
}

// As in cpu_avx512.cpp. A byte of the sums counts to n / 32, at most 255: longer samples go in parts.
ZU_AVX2 void histogram(const uint8_t* symbols, uint32_t n, uint32_t* counts, Soon& soon) {
  const uint32_t whole = n / 32 * 32;
  __m256i least = all(255), most = _mm256_setzero_si256();
  for (uint32_t i = 0; i < whole; i += 32) {
    const __m256i s = load(symbols + i);
    least = _mm256_min_epu8(least, s);
    most = _mm256_max_epu8(most, s);
  }
  const int low = least_of(least), high = 255 - least_of(_mm256_xor_si256(most, all(255)));
  if (whole == 0 || high - low >= 40) return kReference.histogram(symbols, n, counts, soon);
  std::memset(counts, 0, 256 * sizeof *counts);
  for (uint32_t begin = 0; begin < whole; begin += 32 * 255) {
    const uint32_t end = std::min(whole, begin + 32 * 255);
    for (int s = low; s <= high; s += 2) {
      const __m256i a = all(s), b = all(s + 1), zero = _mm256_setzero_si256();
      __m256i of_a = zero, of_b = zero;
      for (uint32_t i = begin; i < end; i += 32) {
        const __m256i x = load(symbols + i);
        of_a = _mm256_sub_epi8(of_a, _mm256_cmpeq_epi8(x, a));
        of_b = _mm256_sub_epi8(of_b, _mm256_cmpeq_epi8(x, b));
      }
      alignas(32) uint64_t sums[8];
      store(sums, _mm256_sad_epu8(of_a, zero));
      store(sums + 4, _mm256_sad_epu8(of_b, zero));
      counts[s] += static_cast<uint32_t>(sums[0] + sums[1] + sums[2] + sums[3]);
      if (s + 1 <= high) counts[s + 1] += static_cast<uint32_t>(sums[4] + sums[5] + sums[6] + sums[7]);
      for (int i = 0; i < 8; ++i) ask(soon);
    }
  }
  for (uint32_t i = whole; i < n; ++i) ++counts[symbols[i]];
}

ZU_AVX2 void pack(const uint8_t* codes, uint32_t n, int bits, std::byte* to) {
  if (bits == 4) pack_bits<4>(codes, n, to);
  else if (bits == 3) pack_bits<3>(codes, n, to);
  else pack_bits<2>(codes, n, to);
}
ZU_AVX2 void unpack(const std::byte* from, uint32_t n, int bits, uint8_t* codes) {
  if (bits == 4) unpack_bits<4>(from, n, codes);
  else if (bits == 3) unpack_bits<3>(from, n, codes);
  else unpack_bits<2>(from, n, codes);
}

ZU_AVX2 inline void stripe(__m256i sums[2], const std::byte* data, const std::byte* secret) {
  for (int h = 0; h < 2; ++h) {
    const __m256i word = load(data + 32 * h), key = _mm256_xor_si256(word, load(secret + 32 * h));
    const __m256i product = _mm256_mul_epu32(key, _mm256_srli_epi64(key, 32));
    sums[h] = _mm256_add_epi64(sums[h], _mm256_add_epi64(product, _mm256_shuffle_epi32(word, 0x4E)));
  }
}

ZU_AVX2 uint64_t hash(const std::byte* bytes, size_t length, Soon& soon) {
  if (length <= xxh3::kShort) return XXH3_64bits(bytes, length);
  Soon ahead = soon;
  static constexpr xxh3::Secret words = xxh3::secret_words();
  const auto* secret = reinterpret_cast<const std::byte*>(words.word);
  alignas(32) uint64_t lanes[8];
  for (uint32_t i = 0; i < 8; ++i) lanes[i] = xxh3::start(i);
  __m256i sums[2] = {load(lanes), load(lanes + 4)};
  const uint32_t n = static_cast<uint32_t>(length);
  const __m256i prime = _mm256_set1_epi64x(xxh3::kPrime32_1);
  const std::byte* at = bytes;
  for (uint32_t k = 0; k < xxh3::full_kib(n); ++k) {
    for (uint32_t s = 0; s < 16; ++s, at += xxh3::kStripe) {
      ask(ahead);
      stripe(sums, at, secret + 8 * s);
    }
    for (int h = 0; h < 2; ++h) {
      const __m256i x = _mm256_xor_si256(_mm256_xor_si256(sums[h], _mm256_srli_epi64(sums[h], 47)), load(secret + xxh3::kScrambleSecret + 32 * h));
      const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), prime);
      sums[h] = _mm256_add_epi64(_mm256_mul_epu32(x, prime), _mm256_slli_epi64(high, 32));
    }
  }
  for (uint32_t s = 0; s < xxh3::loose_stripes(n); ++s, at += xxh3::kStripe) stripe(sums, at, secret + 8 * s);
  stripe(sums, bytes + length - xxh3::kStripe, secret + xxh3::kLastSecret);
  store(lanes, sums[0]);
  store(lanes + 4, sums[1]);
  soon = ahead;
  return xxh3::finish(lanes, n);
}

}  // namespace

const Kernels kAvx2 = {"avx2", Needs::kAvx2, split_bf16, merge_bf16, encode_w4, decode_w4, code, decode, count, histogram, pack, unpack, hash, nullptr, nullptr};

}  // namespace zeroulp::codec
#endif
