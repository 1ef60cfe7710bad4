// attention on AVX-512 VNNI. A block's keys are packed as [d / 4][16 keys][4] with the top bit flipped to unsigned, its values as
// [keys / 4][16 elements][4]: vpdpbusd then needs no sums across lanes. The query's planes are signed, so a score carries an offset of
// 128 * sum(plane), taken off at the end; 32-bit lanes may wrap on the way (contract.h: the score itself fits). Probabilities are split
// into unsigned planes p = 128 * (p >> 7) + (p & 127), so values need no offset; |A| < 2^28.
// Proof of equal bits: tests/ops/attention_test.cpp.
#include "ops/attention/fast.h"
#include "ops/attention/tiles.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)
namespace zeroulp::ops::attention {
namespace {

constexpr int64_t kVector = 64;  // bytes
constexpr int64_t kKeyGroups = kBlock / 16;
constexpr int64_t kTileElements = 64;  // of d, in four vectors

int64_t planes_of(const Layout& l) { return l.key_width == 15 ? 2 : 1; }
int64_t quads_of(const Layout& l) { return (l.d + 3) / 4; }

// Lanes of keys [16 * group, 16 * group + 16) that lie in the range.
inline __mmask16 lanes_of(const Range& r, int64_t group) {
  const int64_t base = group * 16;
  if (r.first <= base && r.last >= base + 15) return avx512::kAll;
  const __mmask16 below = avx512::first(std::max<int64_t>(0, r.first - base)),
                  to = avx512::first(std::max<int64_t>(0, r.last + 1 - base));
  return static_cast<__mmask16>(to & ~below);
}

// One plane's 16 keys from `key`: quad q to `to` + q * stride.
ZU_TARGET_AVX512 void pack_keys(const int8_t* plane, int64_t key, int64_t d, int8_t* to, int64_t stride) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
  for (int64_t i = 0; i < d; i += kVector) {
    const __mmask64 bytes = avx512::first_bytes(d - i);
    __m512i v[16];
    ZU_UNROLL for (int j = 0; j < 16; ++j) v[j] =
        _mm512_xor_si512(_mm512_maskz_loadu_epi8(bytes, plane + (key + j) * d + i), flip);
    avx512::transpose(v);
    ZU_UNROLL for (int q = 0; q < 16; ++q) {
      if (i + 4 * q < d) _mm512_store_si512(to + (i / 4 + q) * stride, v[q]);
    }
  }
}

// All elements of 64 keys, as [key quad][element / 16].
ZU_TARGET_AVX512 void pack_values(const int8_t* values, int64_t d, int64_t padded, int8_t* to) {
  for (int64_t element = 0; element < padded; element += 16) {
    __m512i v[16];
    ZU_UNROLL for (int i = 0; i < 16; ++i) {
      const __mmask64 exists = element + i < d ? ~__mmask64{0} : 0;
      v[i] = _mm512_maskz_loadu_epi8(exists, values + std::min(element + i, d - 1) * kBlock);
    }
    avx512::transpose(v);
    ZU_UNROLL for (int q = 0; q < 16; ++q) _mm512_store_si512(to + (q * padded + element) * 4, v[q]);
  }
}

// Raw scores of all 128 keys, without the offset. keys: [quad][plane][group of 16 keys].
template <int P>
ZU_TARGET_AVX512 void raw_scores(const int8_t* keys, const std::byte* codes, int64_t quads, int32_t offset, int32_t* scores) {
  const std::byte* low = codes + round_up(quads * 4, kVector);
  for (int64_t half = 0; half < kKeyGroups; half += 4) {
    __m512i high_sum[4], low_sum[4], cross_sum[4];  // apart, so that no chain of additions is longer than the loop
    ZU_UNROLL for (int g = 0; g < 4; ++g) high_sum[g] = low_sum[g] = cross_sum[g] = _mm512_setzero_si512();
    for (int64_t q = 0; q < quads; ++q) {
      int32_t hi4, lo4;
      std::memcpy(&hi4, codes + 4 * q, 4);
      std::memcpy(&lo4, low + 4 * q, 4);
      const __m512i hq = _mm512_set1_epi32(hi4), lq = _mm512_set1_epi32(lo4);
      const int8_t* at = keys + (q * P * kKeyGroups + half) * kVector;
      ZU_UNROLL for (int g = 0; g < 4; ++g) {
        const __m512i k = _mm512_load_si512(at + g * kVector);
        high_sum[g] = _mm512_dpbusd_epi32(high_sum[g], k, hq);
        low_sum[g] = _mm512_dpbusd_epi32(low_sum[g], k, lq);
        if (P == 2) cross_sum[g] = _mm512_dpbusd_epi32(cross_sum[g], _mm512_load_si512(at + (kKeyGroups + g) * kVector), hq);
      }
    }
    ZU_UNROLL for (int g = 0; g < 4; ++g) {
      const __m512i small = _mm512_add_epi32(low_sum[g], cross_sum[g]);
      const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high_sum[g], 7), small);
      _mm512_store_si512(scores + (half + g) * 16, _mm512_sub_epi32(sum, _mm512_set1_epi32(offset)));
    }
  }
}

// From scores to the block's exponents: u_j in place of the scores, n, F; or a fault.
ZU_TARGET_AVX512 BlockSums scale_scores(const View& kv, const Range& r, float c, int32_t* scores, float* u) {
  const __m512 infinity = _mm512_castsi512_ps(_mm512_set1_epi32(0x7F800000));
  __m512 top = _mm512_sub_ps(_mm512_setzero_ps(), infinity);
  __m512i exponent = _mm512_set1_epi32(kv_cache::kZeroRow);
  __mmask16 bad = 0;
  for (int64_t g = r.first / 16; g <= r.last / 16; ++g) {
    const __mmask16 lanes = lanes_of(r, g);
    const __m512 scale = _mm512_maskz_loadu_ps(lanes, kv.key_scales + g * 16);
    const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(scores + g * 16)), scale);
    _mm512_store_ps(u + g * 16, v);
    bad = static_cast<__mmask16>(bad | _mm512_mask_cmp_ps_mask(lanes, _mm512_abs_ps(v), infinity, _CMP_NLT_UQ));
    top = _mm512_mask_max_ps(top, lanes, top, v);
    const __m512i e = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kv.value_exponents + g * 16)));
    exponent = _mm512_mask_max_epi32(exponent, lanes, exponent, e);
  }
  BlockSums s;
  const float max_u = _mm512_reduce_max_ps(top);
  s.fault = bad != 0 || !(std::fabs(c * max_u) < kScoreLimit);
  if (s.fault) return s;
  s.n = block_exponent_n(c, max_u);
  const int largest = _mm512_reduce_max_epi32(exponent);
  s.f = largest == kv_cache::kZeroRow ? 0 : largest;
  return s;
}

// Weights of the keys in the range (contract.h, weights()): their sum, and p in two unsigned planes.
ZU_TARGET_AVX512 int32_t make_weights(const View& kv, const Range& r, const float* u, float c, const BlockSums& s,
                                      int8_t* p_high, int8_t* p_low) {
  const __m512 cs = _mm512_set1_ps(c), minus_n = _mm512_set1_ps(-s.n), limit = _mm512_set1_ps(kProbabilityTop);
  const __m512i bias = _mm512_set1_epi32(127 - s.f), zero_row = _mm512_set1_epi32(kv_cache::kZeroRow);
  __m512i sum = _mm512_setzero_si512();
  for (int64_t g = r.first / 16; g <= r.last / 16; ++g) {
    const __mmask16 lanes = lanes_of(r, g);
    const __m512 t = _mm512_mul_ps(limit, avx512::exp2_3(_mm512_fmadd_ps(_mm512_load_ps(u + g * 16), cs, minus_n)));
    sum = _mm512_add_epi32(sum, _mm512_maskz_cvtps_epi32(lanes, t));
    const __m512i e = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kv.value_exponents + g * 16)));
    const __mmask16 counts = _mm512_mask_cmpneq_epi32_mask(lanes, e, zero_row);
    const __m512 factor = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(e, bias), 23));
    const __m512i p = _mm512_maskz_cvtps_epi32(counts, _mm512_mul_ps(t, factor));
    _mm_store_si128(reinterpret_cast<__m128i*>(p_high + g * 16), _mm512_cvtepi32_epi8(_mm512_srli_epi32(p, 7)));
    _mm_store_si128(reinterpret_cast<__m128i*>(p_low + g * 16),
                    _mm512_cvtepi32_epi8(_mm512_and_si512(p, _mm512_set1_epi32(127))));
  }
  return _mm512_reduce_add_epi32(sum);
}

// a[i] = sum of p_j * v_j[i]. values: [key quad][element / 16].
ZU_TARGET_AVX512 void weigh_values(const int8_t* values, int64_t padded, const Range& r, const int8_t* p_high,
                                   const int8_t* p_low, int32_t* a) {
  for (int64_t element = 0; element < padded; element += kTileElements) {
    __m512i high[4], low[4];
    ZU_UNROLL for (int i = 0; i < 4; ++i) high[i] = low[i] = _mm512_setzero_si512();
    for (int64_t q = r.first / 4; q <= r.last / 4; ++q) {
      int32_t hi4, lo4;
      std::memcpy(&hi4, p_high + 4 * q, 4);
      std::memcpy(&lo4, p_low + 4 * q, 4);
      const __m512i hp = _mm512_set1_epi32(hi4), lp = _mm512_set1_epi32(lo4);
      const int8_t* at = values + (q * padded + element) * 4;
      ZU_UNROLL for (int i = 0; i < 4; ++i) {
        const __m512i v = _mm512_load_si512(at + i * kVector);
        high[i] = _mm512_dpbusd_epi32(high[i], hp, v);
        low[i] = _mm512_dpbusd_epi32(low[i], lp, v);
      }
    }
    ZU_UNROLL for (int i = 0; i < 4; ++i) {
      _mm512_store_si512(a + element + i * 16, _mm512_add_epi32(_mm512_slli_epi32(high[i], 7), low[i]));
    }
  }
}

struct Avx512 {
  static int64_t query_bytes(const Layout& l) { return 2 * round_up(l.d, kVector); }
  static int64_t key_bytes(const Layout& l) { return quads_of(l) * planes_of(l) * kKeyGroups * kVector; }
  static int64_t value_bytes(const Layout& l) { return kBlock * round_up(l.d, kLanes); }

  // Two planes of codes, zero behind d; returns the offset of the scores, which wraps like them.
  ZU_TARGET_AVX512 static int32_t pack_query(const Layout& l, const int16_t* q, std::byte* to) {
    const int64_t plane = round_up(l.d, kVector);
    const __m512i ones = _mm512_set1_epi16(1);
    __m512i high = _mm512_setzero_si512(), low = high;
    for (int64_t i = 0; i < plane; i += 32) {
      const auto lanes = static_cast<__mmask32>(avx512::first_bytes(std::clamp<int64_t>(l.d - i, 0, 32)));
      const __m512i v = _mm512_maskz_loadu_epi16(lanes, q + i);
      const __m512i hi = _mm512_srai_epi16(_mm512_add_epi16(v, _mm512_set1_epi16(64)), 7);
      const __m512i lo = _mm512_sub_epi16(v, _mm512_slli_epi16(hi, 7));
      high = _mm512_add_epi32(high, _mm512_madd_epi16(hi, ones));
      low = _mm512_add_epi32(low, _mm512_madd_epi16(lo, ones));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm512_cvtepi16_epi8(hi));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + plane + i), _mm512_cvtepi16_epi8(lo));
    }
    const auto sum = [](__m512i v) ZU_TARGET_AVX512 { return static_cast<uint32_t>(_mm512_reduce_add_epi32(v)); };
    return static_cast<int32_t>(128 * (128 * sum(high) + sum(low) + (l.key_width == 15 ? sum(high) : 0)));
  }

  static void pack_block(const Layout& l, const View& kv, const Range& r, std::byte* keys, std::byte* values) {
    const int64_t planes = planes_of(l), stride = planes * kKeyGroups * kVector, padded = round_up(l.d, kLanes);
    for (int64_t g = r.first / 16; g <= r.last / 16; ++g)
      for (int64_t p = 0; p < planes; ++p)
        pack_keys(p == 0 ? kv.key_hi : kv.key_lo, g * 16, l.d, reinterpret_cast<int8_t*>(keys) + (p * kKeyGroups + g) * kVector,
                  stride);
    for (int64_t half = r.first / 64; half <= r.last / 64; ++half)
      pack_values(kv.values + half * 64, l.d, padded, reinterpret_cast<int8_t*>(values) + half * 64 * padded);
  }

  static BlockSums attend(const Layout& l, const View& kv, const Range& r, const Query& q, const std::byte* keys,
                          const std::byte* values, int32_t* a) {
    alignas(64) int32_t scores[kBlock];
    alignas(64) float u[kBlock];
    alignas(64) int8_t p_high[kBlock], p_low[kBlock];
    const auto raw = l.key_width == 15 ? raw_scores<2> : raw_scores<1>;
    raw(reinterpret_cast<const int8_t*>(keys), q.codes, quads_of(l), q.offset, scores);
    BlockSums s = scale_scores(kv, r, q.c, scores, u);
    if (s.fault) return s;
    s.b = make_weights(kv, r, u, q.c, s, p_high, p_low);
    weigh_values(reinterpret_cast<const int8_t*>(values), round_up(l.d, kLanes), r, p_high, p_low, a);
    return s;
  }

  ZU_TARGET_AVX512 static void add_block(float* o, const int32_t* a, float keep, float gain, int64_t count) {
    const __m512 k = _mm512_set1_ps(keep), g = _mm512_set1_ps(gain);
    for (int64_t i = 0; i < count; i += 16) {
      __m512 v = _mm512_mul_ps(_mm512_load_ps(o + i), k);
      if (gain != 0) v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(a + i)), g, v);
      _mm512_store_ps(o + i, v);
    }
  }
  ZU_TARGET_AVX512 static void add_group(float* total, const float* group, float keep, float gain, int64_t count) {
    const __m512 k = _mm512_set1_ps(keep), g = _mm512_set1_ps(gain);
    for (int64_t i = 0; i < count; i += 16)
      _mm512_store_ps(total + i,
                      _mm512_add_ps(_mm512_mul_ps(_mm512_load_ps(total + i), k), _mm512_mul_ps(_mm512_load_ps(group + i), g)));
  }
  ZU_TARGET_AVX512 static void finish(uint16_t* out, const float* o, float l, int64_t d) {
    for (int64_t i = 0; i < d; i += 16)
      avx512::store_bf16(out + i, _mm512_div_ps(_mm512_load_ps(o + i), _mm512_set1_ps(l)), avx512::first(d - i));
  }
};

}  // namespace

int64_t avx512_vnni_scratch_bytes(const Layout& l) { return scratch_bytes_of<Avx512>(l); }

void avx512_vnni(const Args& g) { run_tiles<Avx512>(g); }

}  // namespace zeroulp::ops::attention
#endif
