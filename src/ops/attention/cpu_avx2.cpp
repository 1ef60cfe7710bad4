// attention on AVX2: vpmaddwd on int16. Keys are packed as [d / 2][8 keys][2], values as [keys / 2][8 elements][2], so that there are no
// sums across lanes. A 15-bit key counts as hq * (128 hk + lk) + lq * hk, an 8-bit key as q * k; 32-bit lanes may wrap on the way, the
// score itself fits (contract.h). Probabilities p <= 16256 go as they are; |A| < 2^28. Proof of equal bits: tests/ops/attention_test.cpp.
#include "ops/attention/fast.h"
#include "ops/attention/tiles.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)
namespace zeroulp::ops::attention {
namespace {

constexpr int64_t kVector = 32;  // bytes
constexpr int64_t kKeyGroups = kBlock / 8;

int64_t planes_of(const Layout& l) { return l.key_width == 15 ? 2 : 1; }
int64_t pairs_of(const Layout& l) { return l.d / 2; }

ZU_TARGET_AVX2 inline __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
ZU_TARGET_AVX2 inline void store(void* p, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(p), v); }

// Sixteen bytes as int16, zero from `count` on.
ZU_TARGET_AVX2 inline __m256i load_bytes(const int8_t* p, int64_t count) {
  if (count >= 16) return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  alignas(16) int8_t bytes[16] = {};
  if (count > 0) std::memcpy(bytes, p, static_cast<size_t>(count));
  return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// Eight keys from `key`: pair i of the one or two key numbers to `to` + (i * planes + plane) * kKeyGroups * kVector.
ZU_TARGET_AVX2 void pack_keys(const View& kv, int64_t key, int64_t d, int64_t planes, std::byte* to) {
  for (int64_t at = 0; at < d; at += 16) {
    __m256i high[8], whole[8];
    ZU_UNROLL for (int j = 0; j < 8; ++j) {
      const int64_t from = (key + j) * d + at;
      high[j] = whole[j] = load_bytes(kv.key_hi + from, d - at);
      if (planes == 2) whole[j] = _mm256_add_epi16(_mm256_slli_epi16(high[j], 7), load_bytes(kv.key_lo + from, d - at));
    }
    avx2::transpose(whole);
    if (planes == 2) avx2::transpose(high);
    ZU_UNROLL for (int i = 0; i < 8; ++i) {
      if (at + 2 * i < d) {
        std::byte* pair = to + (at / 2 + i) * planes * kKeyGroups * kVector;
        store(pair, whole[i]);
        if (planes == 2) store(pair + kKeyGroups * kVector, high[i]);
      }
    }
  }
}

// All elements of the 16 keys at `values`, as [key pair][element / 8].
ZU_TARGET_AVX2 void pack_values(const int8_t* values, int64_t d, int64_t padded, std::byte* to) {
  for (int64_t element = 0; element < padded; element += 8) {
    __m256i v[8];
    ZU_UNROLL for (int i = 0; i < 8; ++i) v[i] = load_bytes(values + (element + i) * kBlock, element + i < d ? 16 : 0);
    avx2::transpose(v);
    ZU_UNROLL for (int p = 0; p < 8; ++p) store(to + (p * padded + element) * 4, v[p]);
  }
}

// Raw scores of the keys in groups [first, last] of 8, four groups at a time. codes: [plane][pair].
template <int P>
ZU_TARGET_AVX2 void raw_scores(const std::byte* keys, const std::byte* codes, int64_t pairs, int64_t first, int64_t last,
                               int32_t* scores) {
  for (int64_t group = first / 4 * 4; group <= last; group += 4) {
    __m256i sum[4];
    ZU_UNROLL for (int g = 0; g < 4; ++g) sum[g] = _mm256_setzero_si256();
    for (int64_t i = 0; i < pairs; ++i) {
      ZU_UNROLL for (int p = 0; p < P; ++p) {
        int32_t pair;
        std::memcpy(&pair, codes + (p * pairs + i) * 4, 4);
        const __m256i q = _mm256_set1_epi32(pair);
        const std::byte* at = keys + ((i * P + p) * kKeyGroups + group) * kVector;
        ZU_UNROLL for (int g = 0; g < 4; ++g) sum[g] = _mm256_add_epi32(sum[g], _mm256_madd_epi16(q, load(at + g * kVector)));
      }
    }
    ZU_UNROLL for (int g = 0; g < 4; ++g) store(scores + (group + g) * 8, sum[g]);
  }
}

// All bits in the lanes of keys [8 * group, 8 * group + 8) that lie in the range.
ZU_TARGET_AVX2 inline __m256i lanes_of(const Range& r, int64_t group) {
  const __m256i key =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(static_cast<int>(group * 8)));
  const __m256i from = _mm256_cmpgt_epi32(key, _mm256_set1_epi32(static_cast<int>(r.first) - 1));
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(key, _mm256_set1_epi32(static_cast<int>(r.last))), from);
}
ZU_TARGET_AVX2 inline __m256i load_exponents(const View& kv, int64_t group) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(kv.value_exponents + group * 8)));
}

// From scores to the block's exponents: u_j in place of the scores, n, F; or a fault.
ZU_TARGET_AVX2 BlockSums scale_scores(const View& kv, const Range& r, float c, const int32_t* scores, float* u) {
  const __m256 infinity = _mm256_castsi256_ps(_mm256_set1_epi32(0x7F800000));
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  __m256 top = _mm256_sub_ps(_mm256_setzero_ps(), infinity), bad = _mm256_setzero_ps();
  __m256i exponent = _mm256_set1_epi32(kv_cache::kZeroRow);
  const __m256 lowest = top;
  for (int64_t g = r.first / 8; g <= r.last / 8; ++g) {
    const __m256i lanes = lanes_of(r, g);
    const __m256 lanes_ps = _mm256_castsi256_ps(lanes);
    const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(load(scores + g * 8)), _mm256_maskload_ps(kv.key_scales + g * 8, lanes));
    _mm256_store_ps(u + g * 8, v);
    const __m256 outside = _mm256_cmp_ps(_mm256_and_ps(v, magnitude), infinity, _CMP_NLT_UQ);
    bad = _mm256_or_ps(bad, _mm256_and_ps(outside, lanes_ps));
    top = _mm256_max_ps(top, _mm256_blendv_ps(lowest, v, lanes_ps));
    exponent = _mm256_max_epi32(exponent, _mm256_blendv_epi8(exponent, load_exponents(kv, g), lanes));
  }
  alignas(32) float tops[8];
  alignas(32) int32_t exponents[8];
  _mm256_store_ps(tops, top);
  store(exponents, exponent);
  const float max_u = *std::max_element(tops, tops + 8);
  const int largest = *std::max_element(exponents, exponents + 8);
  BlockSums s;
  s.fault = _mm256_movemask_ps(bad) != 0 || !(std::fabs(c * max_u) < kScoreLimit);
  if (s.fault) return s;
  s.n = block_exponent_n(c, max_u);
  s.f = largest == kv_cache::kZeroRow ? 0 : largest;
  return s;
}

// Weights of the keys in the range (contract.h, weights()): their sum, and p as int16. Keys of a touched group of 16 outside the range
// get p = 0.
ZU_TARGET_AVX2 int32_t make_weights(const View& kv, const Range& r, const float* u, float c, const BlockSums& s, int16_t* p) {
  const __m256 cs = _mm256_set1_ps(c), minus_n = _mm256_set1_ps(-s.n), limit = _mm256_set1_ps(kProbabilityTop);
  const __m256i bias = _mm256_set1_epi32(127 - s.f), zero_row = _mm256_set1_epi32(kv_cache::kZeroRow);
  __m256i sum = _mm256_setzero_si256();
  for (int64_t pair = r.first / 16; pair <= r.last / 16; ++pair) {
    __m256i both[2];
    ZU_UNROLL for (int half = 0; half < 2; ++half) {
      const int64_t g = pair * 2 + half;
      const __m256i lanes = lanes_of(r, g);
      const __m256 t = _mm256_mul_ps(limit, avx2::exp2_3(_mm256_fmadd_ps(_mm256_load_ps(u + g * 8), cs, minus_n)));
      sum = _mm256_add_epi32(sum, _mm256_and_si256(lanes, _mm256_cvtps_epi32(t)));
      const __m256i e = load_exponents(kv, g);
      const __m256i counts = _mm256_andnot_si256(_mm256_cmpeq_epi32(e, zero_row), lanes);
      const __m256 factor = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, bias), 23));
      both[half] = _mm256_and_si256(counts, _mm256_cvtps_epi32(_mm256_mul_ps(t, factor)));
    }
    store(p + pair * 16, _mm256_permute4x64_epi64(_mm256_packs_epi32(both[0], both[1]), 0xD8));
  }
  return static_cast<int32_t>(avx2::sum_lanes_64(avx2::widen_sum(sum)));
}

// a[i] = sum of p_j * v_j[i]. values: [key pair][element / 8].
ZU_TARGET_AVX2 void weigh_values(const std::byte* values, int64_t padded, const Range& r, const int16_t* p, int32_t* a) {
  for (int64_t element = 0; element < padded; element += 64) {
    __m256i sum[8];
    ZU_UNROLL for (int i = 0; i < 8; ++i) sum[i] = _mm256_setzero_si256();
    for (int64_t pair = r.first / 2; pair <= r.last / 2; ++pair) {
      int32_t two;
      std::memcpy(&two, p + 2 * pair, 4);
      const __m256i weights = _mm256_set1_epi32(two);
      const std::byte* at = values + (pair * padded + element) * 4;
      ZU_UNROLL for (int i = 0; i < 8; ++i) sum[i] =
          _mm256_add_epi32(sum[i], _mm256_madd_epi16(weights, load(at + i * kVector)));
    }
    ZU_UNROLL for (int i = 0; i < 8; ++i) store(a + element + i * 8, sum[i]);
  }
}

struct Avx2 {
  static int64_t query_bytes(const Layout& l) { return round_up(l.d * 2 * planes_of(l), 64); }
  static int64_t key_bytes(const Layout& l) { return pairs_of(l) * planes_of(l) * kKeyGroups * kVector; }
  static int64_t value_bytes(const Layout& l) { return kBlock * 2 * round_up(l.d, kLanes); }

  static int32_t pack_query(const Layout& l, const int16_t* q, std::byte* to) {
    auto* codes = reinterpret_cast<int16_t*>(to);
    for (int64_t i = 0; i < l.d; ++i) {
      codes[i] = static_cast<int16_t>(l.key_width == 15 ? num::plane_hi(q[i]) : q[i]);
      if (l.key_width == 15) codes[l.d + i] = static_cast<int16_t>(num::plane_lo(q[i]));
    }
    return 0;
  }

  static void pack_block(const Layout& l, const View& kv, const Range& r, std::byte* keys, std::byte* values) {
    const int64_t padded = round_up(l.d, kLanes);
    for (int64_t g = r.first / 8; g <= r.last / 8; ++g) pack_keys(kv, g * 8, l.d, planes_of(l), keys + g * kVector);
    for (int64_t j = r.first / 16 * 16; j <= r.last; j += 16) pack_values(kv.values + j, l.d, padded, values + j * 2 * padded);
  }

  static BlockSums attend(const Layout& l, const View& kv, const Range& r, const Query& q, const std::byte* keys,
                          const std::byte* values, int32_t* a) {
    alignas(32) int32_t scores[kBlock];
    alignas(32) float u[kBlock] = {};  // a weight is computed, and dropped, beside the range as well
    alignas(32) int16_t p[kBlock];
    const auto raw = l.key_width == 15 ? raw_scores<2> : raw_scores<1>;
    raw(keys, q.codes, pairs_of(l), r.first / 8, r.last / 8, scores);
    BlockSums s = scale_scores(kv, r, q.c, scores, u);
    if (s.fault) return s;
    s.b = make_weights(kv, r, u, q.c, s, p);
    weigh_values(values, round_up(l.d, kLanes), r, p, a);
    return s;
  }

  ZU_TARGET_AVX2 static void add_block(float* o, const int32_t* a, float keep, float gain, int64_t count) {
    const __m256 k = _mm256_set1_ps(keep), g = _mm256_set1_ps(gain);
    for (int64_t i = 0; i < count; i += 8) {
      __m256 v = _mm256_mul_ps(_mm256_load_ps(o + i), k);
      if (gain != 0) v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(load(a + i)), g, v);
      _mm256_store_ps(o + i, v);
    }
  }
  ZU_TARGET_AVX2 static void add_group(float* total, const float* group, float keep, float gain, int64_t count) {
    const __m256 k = _mm256_set1_ps(keep), g = _mm256_set1_ps(gain);
    for (int64_t i = 0; i < count; i += 8)
      _mm256_store_ps(total + i,
                      _mm256_add_ps(_mm256_mul_ps(_mm256_load_ps(total + i), k), _mm256_mul_ps(_mm256_load_ps(group + i), g)));
  }
  ZU_TARGET_AVX2 static void finish(uint16_t* out, const float* o, float l, int64_t d) {
    for (int64_t i = 0; i < d; i += 8)
      avx2::store_bf16_part(out + i, _mm256_div_ps(_mm256_load_ps(o + i), _mm256_set1_ps(l)), std::min<int64_t>(8, d - i));
  }
};

}  // namespace

int64_t avx2_scratch_bytes(const Layout& l) { return scratch_bytes_of<Avx2>(l); }

void avx2(const Args& g) { run_tiles<Avx2>(g); }

}  // namespace zeroulp::ops::attention
#endif
