// AVX-512 with VBMI and VBMI2: 64 values at a time.
#include <algorithm>
#include <cstring>

#include "codec/kernels.h"
#include "codec/xxh3.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <xxhash.h>

#define ZU_VBMI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt")))

namespace zeroulp::codec {
namespace {

ZU_VBMI inline __mmask64 first(uint32_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

ZU_VBMI inline __m512i all(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }

// Byte i of the result is byte step * i + start of the 128 bytes of two vectors.
ZU_VBMI inline __m512i indices(int start, int step) {
  alignas(64) uint8_t index[64];
  for (int i = 0; i < 64; ++i) index[i] = static_cast<uint8_t>(start + step * i);
  return _mm512_load_si512(index);
}

// 64 values, those of `valid`: the rotated ones' lower and upper bytes; and back.
struct Planes {
  __m512i rest, symbols;
};
class Split {
 public:
  ZU_VBMI Split() : even_(indices(0, 2)), odd_(indices(1, 2)) {}
  ZU_VBMI Planes operator()(const std::byte* raw, __mmask64 valid) const {
    const __m512i a = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(valid), raw), b = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(valid >> 32), raw + 64);
    const __m512i x = _mm512_shldi_epi16(a, a, 1), y = _mm512_shldi_epi16(b, b, 1);
    return {_mm512_permutex2var_epi8(x, even_, y), _mm512_permutex2var_epi8(x, odd_, y)};
  }

 private:
  __m512i even_, odd_;
};
class Merge {
 public:
  ZU_VBMI Merge() {
    alignas(64) uint8_t low[64], high[64];
    for (int i = 0; i < 32; ++i) {
      low[2 * i] = static_cast<uint8_t>(i), low[2 * i + 1] = static_cast<uint8_t>(64 + i);
      high[2 * i] = static_cast<uint8_t>(32 + i), high[2 * i + 1] = static_cast<uint8_t>(96 + i);
    }
    low_ = _mm512_load_si512(low);
    high_ = _mm512_load_si512(high);
  }
  ZU_VBMI void operator()(Planes p, std::byte* raw, __mmask64 valid) const {
    const __m512i x = _mm512_permutex2var_epi8(p.rest, low_, p.symbols), y = _mm512_permutex2var_epi8(p.rest, high_, p.symbols);
    _mm512_mask_storeu_epi16(raw, static_cast<__mmask32>(valid), _mm512_shrdi_epi16(x, x, 1));
    _mm512_mask_storeu_epi16(raw + 64, static_cast<__mmask32>(valid >> 32), _mm512_shrdi_epi16(y, y, 1));
  }

 private:
  __m512i low_, high_;
};

ZU_VBMI void split_bf16(const std::byte* raw, uint32_t n, std::byte* rest, uint8_t* symbols) {
  const Split split;
  for (uint32_t i = 0; i < n; i += 64) {
    const Planes p = split(raw + 2 * i, first(n - i));
    _mm512_mask_storeu_epi8(rest + i, first(n - i), p.rest);
    _mm512_storeu_si512(symbols + i, p.symbols);
  }
}

ZU_VBMI void merge_bf16(const std::byte* rest, const uint8_t* symbols, uint32_t n, std::byte* raw) {
  const Merge merge;
  for (uint32_t i = 0; i < n; i += 64) merge({_mm512_maskz_loadu_epi8(first(n - i), rest + i), _mm512_loadu_si512(symbols + i)}, raw + 2 * i, first(n - i));
}

ZU_VBMI uint32_t encode_w4(const std::byte* raw, uint32_t n, uint8_t begin, std::byte* rest, std::byte* codes, uint8_t* left, Soon& soon) {
  Soon ahead = soon;
  const Split split;
  const __m512i from = all(begin), fifteen = all(15), weights = _mm512_set1_epi16(0x1001);
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i += 64) {
    ask(ahead);
    const __mmask64 valid = first(n - i);
    const Planes p = split(raw + 2 * i, valid);
    _mm512_mask_storeu_epi8(rest + i, valid, p.rest);
    const __m512i c = _mm512_maskz_min_epu8(valid, _mm512_sub_epi8(p.symbols, from), fifteen);
    _mm256_mask_storeu_epi8(codes + i / 2, static_cast<__mmask32>(first((n - i + 1) / 2)), _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(c, weights)));
    const __mmask64 out = _mm512_cmpeq_epi8_mask(c, fifteen);
    if (out == 0) continue;
    _mm512_storeu_si512(left + count, _mm512_maskz_compress_epi8(out, p.symbols));
    count += static_cast<uint32_t>(_mm_popcnt_u64(out));
  }
  soon = ahead;
  return count;
}

ZU_VBMI uint32_t decode_w4(const std::byte* rest, const std::byte* codes, uint32_t n, uint8_t begin, const uint8_t* left, std::byte* raw, Soon& soon) {
  Soon ahead = soon;
  const Merge merge;
  const __m512i from = all(begin), fifteen = all(15);
  const uint8_t* const start = left;
  for (uint32_t i = 0; i < n; i += 64) {
    ask<3>(ahead);
    const __mmask64 valid = first(n - i);
    const __m512i pairs = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(static_cast<__mmask32>(first((n - i + 1) / 2)), codes + i / 2));
    const __m512i c = _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi16(pairs, 4)), fifteen);
    const __mmask64 out = _mm512_cmpeq_epi8_mask(c, fifteen) & valid;
    __m512i s = _mm512_add_epi8(c, from);
    if (out != 0) {
      s = _mm512_mask_expand_epi8(s, out, _mm512_loadu_si512(left));
      left += _mm_popcnt_u64(out);
    }
    merge({_mm512_maskz_loadu_epi8(valid, rest + i), s}, raw + 2 * i, valid);
  }
  soon = ahead;
  return static_cast<uint32_t>(left - start);
}

ZU_VBMI uint32_t code(const uint8_t* symbols, uint32_t n, Window w, uint8_t* codes, uint8_t* left) {
  const __m512i begin = all(w.begin), span = all(w.width + w.hole_width), width = all(w.width), hole = all(w.hole), hole_width = all(w.hole_width);
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i += 64) {
    const __m512i s = _mm512_loadu_si512(symbols + i), d = _mm512_sub_epi8(s, begin);
    const __mmask64 above = _mm512_cmpge_epu8_mask(s, hole), in_hole = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(s, hole), hole_width);
    const __mmask64 out = (_mm512_cmpge_epu8_mask(d, span) | in_hole) & first(n - i);
    const __m512i number = _mm512_mask_sub_epi8(d, above, d, hole_width);
    _mm512_storeu_si512(codes + i, _mm512_mask_mov_epi8(number, out, width));
    _mm512_storeu_si512(left + count, _mm512_maskz_compress_epi8(out, s));
    count += static_cast<uint32_t>(_mm_popcnt_u64(out));
  }
  return count;
}

ZU_VBMI void decode(const uint8_t* codes, uint32_t n, Window w, const uint8_t* left, uint8_t* symbols) {
  const __m512i begin = all(w.begin), width = all(w.width), hole = all(w.hole), hole_width = all(w.hole_width);
  for (uint32_t i = 0; i < n; i += 64) {
    const __m512i c = _mm512_loadu_si512(codes + i), s = _mm512_add_epi8(c, begin);
    const __mmask64 out = _mm512_cmpeq_epi8_mask(c, width) & first(n - i);
    const __m512i known = _mm512_mask_add_epi8(s, _mm512_cmpge_epu8_mask(s, hole), s, hole_width);
    _mm512_storeu_si512(symbols + i, _mm512_mask_expand_epi8(known, out, _mm512_loadu_si512(left)));
    left += _mm_popcnt_u64(out);
  }
}

ZU_VBMI uint32_t count(const uint8_t* codes, uint32_t n, uint8_t value) {
  const __m512i v = _mm512_set1_epi8(static_cast<char>(value));
  uint32_t found = 0;
  for (uint32_t i = 0; i < n; i += 64) found += static_cast<uint32_t>(_mm_popcnt_u64(_mm512_cmpeq_epi8_mask(_mm512_loadu_si512(codes + i), v) & first(n - i)));
  return found;
}

ZU_VBMI inline int least_of(__m512i x) {
  const __m256i y = _mm256_min_epu8(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
  const __m128i z = _mm_min_epu8(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
  return _mm_extract_epi16(_mm_minpos_epu16(_mm_min_epu8(z, _mm_srli_epi16(z, 8))), 0);
}

// Most samples have few symbols, near each other: each is compared with all of them. Two at a time, so that a vector is loaded once for both.
ZU_VBMI void histogram(const uint8_t* symbols, uint32_t n, uint32_t* counts, Soon& soon) {
  __m512i least = all(255), most = _mm512_setzero_si512();
  for (uint32_t i = 0; i < n; i += 64) {
    const __m512i s = _mm512_loadu_si512(symbols + i);
    least = _mm512_mask_min_epu8(least, first(n - i), least, s);
    most = _mm512_mask_max_epu8(most, first(n - i), most, s);
  }
  const int low = least_of(least), high = 255 - least_of(_mm512_xor_si512(most, all(255)));
  if (high - low >= 48) return kReference.histogram(symbols, n, counts, soon);
  std::memset(counts, 0, 256 * sizeof *counts);
  for (int s = low; s <= high; s += 2) {
    const __m512i a = all(s), b = all(s + 1);
    uint64_t of_a = 0, of_b = 0;
    for (uint32_t i = 0; i < n; i += 64) {
      const __m512i x = _mm512_loadu_si512(symbols + i);
      of_a += static_cast<uint64_t>(_mm_popcnt_u64(_mm512_mask_cmpeq_epi8_mask(first(n - i), x, a)));
      of_b += static_cast<uint64_t>(_mm_popcnt_u64(_mm512_mask_cmpeq_epi8_mask(first(n - i), x, b)));
    }
    counts[s] = static_cast<uint32_t>(of_a);
    if (s + 1 <= high) counts[s + 1] = static_cast<uint32_t>(of_b);
    for (int i = 0; i < 8; ++i) ask(soon);
  }
}

// 64 codes to 8 * bits bytes at the front.
ZU_VBMI inline __m512i squeeze(__m512i codes, int bits, __m512i gather) {
  const __m512i pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(static_cast<short>(1 | 1 << (bits + 8))));
  const __m512i fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(1 | 1 << (2 * bits + 16)));
  const __m512i eights = _mm512_or_si512(fours, _mm512_srli_epi64(fours, static_cast<unsigned>(32 - 4 * bits)));
  return _mm512_permutexvar_epi8(gather, eights);
}

ZU_VBMI void pack(const uint8_t* codes, uint32_t n, int bits, std::byte* to) {
  alignas(64) uint8_t index[64] = {};
  for (int i = 0; i < 8 * bits; ++i) index[i] = static_cast<uint8_t>(i / bits * 8 + i % bits);
  const __m512i gather = _mm512_load_si512(index);
  for (uint32_t i = 0; i < n; i += 64, to += 8 * bits) {
    const uint32_t left = n - i;
    const __m512i c = _mm512_maskz_mov_epi8(first(left), _mm512_loadu_si512(codes + i));
    _mm512_mask_storeu_epi8(to, first(string_bytes(left < 64 ? left : 64, bits)), squeeze(c, bits, gather));
  }
}

ZU_VBMI void unpack(const std::byte* from, uint32_t n, int bits, uint8_t* codes) {
  alignas(64) uint8_t index[64] = {}, shift[64];
  for (int i = 0; i < 64; ++i) {
    index[i] = static_cast<uint8_t>(i % 8 < bits ? i / 8 * bits + i % 8 : 63);
    shift[i] = static_cast<uint8_t>(i % 8 * bits);
  }
  const __m512i scatter = _mm512_load_si512(index), shifts = _mm512_load_si512(shift), one = _mm512_set1_epi8(static_cast<char>((1 << bits) - 1));
  for (uint32_t i = 0; i < n; i += 64, from += 8 * bits) {
    const uint32_t left = n - i;
    const __m512i string = _mm512_maskz_loadu_epi8(first(string_bytes(left < 64 ? left : 64, bits)), from);
    _mm512_storeu_si512(codes + i, _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, _mm512_permutexvar_epi8(scatter, string)), one));
  }
}

ZU_VBMI inline __m512i stripe(__m512i sums, const std::byte* data, const std::byte* secret) {
  const __m512i word = _mm512_loadu_si512(data), key = _mm512_xor_si512(word, _mm512_loadu_si512(secret));
  const __m512i product = _mm512_mul_epu32(key, _mm512_srli_epi64(key, 32));
  return _mm512_add_epi64(sums, _mm512_add_epi64(product, _mm512_shuffle_epi32(word, _MM_PERM_BADC)));
}

ZU_VBMI uint64_t hash(const std::byte* bytes, size_t length, Soon& soon) {
  if (length <= xxh3::kShort) return XXH3_64bits(bytes, length);
  Soon ahead = soon;
  static constexpr xxh3::Secret words = xxh3::secret_words();
  const auto* secret = reinterpret_cast<const std::byte*>(words.word);
  alignas(64) uint64_t lanes[8];
  for (uint32_t i = 0; i < 8; ++i) lanes[i] = xxh3::start(i);
  __m512i sums = _mm512_load_si512(lanes);
  const uint32_t n = static_cast<uint32_t>(length);
  const __m512i scramble = _mm512_loadu_si512(secret + xxh3::kScrambleSecret), prime = _mm512_set1_epi64(xxh3::kPrime32_1);
  const std::byte* at = bytes;
  for (uint32_t k = 0; k < xxh3::full_kib(n); ++k) {
    for (uint32_t s = 0; s < 16; ++s, at += xxh3::kStripe) {
      ask(ahead);
      sums = stripe(sums, at, secret + 8 * s);
    }
    sums = _mm512_ternarylogic_epi64(sums, _mm512_srli_epi64(sums, 47), scramble, 0x96);
    const __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(sums, 32), prime);
    sums = _mm512_add_epi64(_mm512_mul_epu32(sums, prime), _mm512_slli_epi64(high, 32));
  }
  for (uint32_t s = 0; s < xxh3::loose_stripes(n); ++s, at += xxh3::kStripe) sums = stripe(sums, at, secret + 8 * s);
  sums = stripe(sums, bytes + length - xxh3::kStripe, secret + xxh3::kLastSecret);
  _mm512_store_si512(lanes, sums);
  soon = ahead;
  return xxh3::finish(lanes, n);
}

// Whole lines go past the caches; the few bytes before and behind them go as they are.
ZU_VBMI void copy_out(const std::byte* from, size_t bytes, std::byte* to) {
  const size_t before = std::min<size_t>(-reinterpret_cast<uintptr_t>(to) % 64, bytes), behind = before + (bytes - before) / 64 * 64;
  std::memcpy(to, from, before);
  for (size_t i = before; i < behind; i += 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  std::memcpy(to + behind, from + behind, bytes - behind);
}
ZU_VBMI void end_copies() { _mm_sfence(); }

}  // namespace

const Kernels kAvx512 = {"avx512_vbmi", Needs::kAvx512Vbmi, split_bf16, merge_bf16, encode_w4, decode_w4, code, decode, count, histogram, pack, unpack, hash, copy_out, end_copies};

}  // namespace zeroulp::codec
#endif
