// attention on AMX tiles, for many queries. A lane of a vector is a query (row and head), so nothing is summed across lanes, and both products
// read the cache in place as their A tiles:
//
//   scores   A  16 keys x 64 of d, the key planes as stored        B  64 of d x 16 queries, one plane    C  [16 keys][16 queries]
//   values   A  16 elements of d x 64 keys, the values as stored   B  64 keys x 16 probabilities, plane  C  [16 elements][16 queries]
//
// Scores: 128 * high + low, high = hk hq, low = hk lq (+ lk hq for 15-bit keys), as contract.h has it. Probabilities are split into planes
// p = 128 * (p >> 7) + (p & 127), both below 128. A tile may reach beyond d into what the block stores next: the B tile is zero there.
// Proof of equal bits: tests/ops/attention_test.cpp.
#include "ops/attention/fast.h"
#include "ops/attention/tiles.h"
#include "ops/simd_amx.h"
#include "ops/simd_avx512.h"

#if defined(__x86_64__)
namespace zeroulp::ops::attention {
namespace {

using amx::kDepth;
using amx::kRowBytes;
using amx::kSide;
using amx::kTileBytes;

constexpr int64_t kSets = 4;         // sets of 16 queries that share a pass over the keys
constexpr int64_t kFewQueries = 7;   // up to here the vectors of cpu_avx512.cpp are as fast
constexpr int64_t kHalves = kBlock / kDepth;

// Sixteen queries, fewer at the end.
struct Set {
  int8_t* codes;             // B tiles [step of d][hi, lo]
  float *o_total, *o_group;  // [d][16]
  float c[kSide];
  int32_t first_key[kSide], position[kSide];
  int64_t row[kSide], head[kSide];
  State total[kSide], group[kSide];
  __mmask16 exists, fault;
};

// What one block of keys gives to a set before it is merged.
struct Work {
  int32_t *high, *low;  // [128 keys][16]; high becomes u
  int8_t* p;            // B tiles [half of the keys][hi, lo]
  int32_t* a;           // [hi, lo][16 elements][16]
  int32_t first[kSide], last[kSide];  // visible keys
  int64_t first_key, last_key;        // of any query
  __mmask16 active;
  __m512 n;
  __m512i f, b;
};

int64_t steps_of(const Layout& l) { return round_up(l.d, kDepth) / kDepth; }
int64_t set_bytes(const Layout& l) { return steps_of(l) * 2 * kTileBytes + 2 * l.d * kSide * 4; }

ZU_TARGET_AMX inline __m512i load(const int32_t* p) { return _mm512_loadu_si512(p); }

ZU_TARGET_AMX void make_set(const Args& g, int64_t first_query, int64_t count, std::byte* memory, Set& s) {
  const int64_t d = g.layout.d, steps = steps_of(g.layout);
  s.codes = reinterpret_cast<int8_t*>(memory);
  s.o_total = reinterpret_cast<float*>(memory + steps * 2 * kTileBytes);
  s.o_group = s.o_total + d * kSide;
  std::memset(s.o_total, 0, static_cast<size_t>(2 * d * kSide * 4));
  s.exists = avx512::first(count);
  s.fault = 0;
  for (int64_t i = 0; i < kSide; ++i) {
    const int64_t query = first_query + std::min(i, count - 1);
    s.row[i] = query / g.group;
    s.head[i] = query % g.group;
    const int64_t position = g.first_position + s.row[i];
    s.position[i] = static_cast<int32_t>(position);
    s.first_key[i] = static_cast<int32_t>(g.window > 0 ? std::max<int64_t>(0, position - g.window + 1) : 0);
    s.c[i] = g.q_scales[s.row[i] * g.q_scales_stride + s.head[i]] * g.score_constant;
    s.total[i] = s.group[i] = {};
  }
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t left = d - step * kDepth;
    const auto first32 = static_cast<__mmask32>(avx512::first_bytes(std::min<int64_t>(left, 32)));
    const auto last32 = static_cast<__mmask32>(avx512::first_bytes(std::clamp<int64_t>(left - 32, 0, 32)));
    __m512i hi[kSide], lo[kSide];
    ZU_UNROLL for (int i = 0; i < kSide; ++i) {
      const int16_t* q = g.q + s.row[i] * g.q_stride + s.head[i] * d + step * kDepth;
      const __m512i q0 = _mm512_maskz_loadu_epi16(first32, q), q1 = _mm512_maskz_loadu_epi16(last32, q + 32);
      avx512::split_planes(q0, q1, hi[i], lo[i]);
    }
    avx512::transpose(hi);
    avx512::transpose(lo);
    ZU_UNROLL for (int quad = 0; quad < kSide; ++quad) {
      _mm512_store_si512(s.codes + step * 2 * kTileBytes + quad * kRowBytes, hi[quad]);
      _mm512_store_si512(s.codes + (step * 2 + 1) * kTileBytes + quad * kRowBytes, lo[quad]);
    }
  }
}

// Which keys of the block each query sees. False when none sees any.
bool find_visible(int64_t block, const Set& s, Work& w) {
  w.active = 0;
  w.first_key = kBlock;
  w.last_key = -1;
  for (int i = 0; i < kSide; ++i) {
    const int64_t base = block * kBlock, first = std::max<int64_t>(s.first_key[i] - base, 0), last = std::min(s.position[i] - base, kBlock - 1);
    w.first[i] = static_cast<int32_t>(first);
    w.last[i] = static_cast<int32_t>(last);
    if (first > last || (s.exists & ~s.fault & (1 << i)) == 0) continue;
    w.active = static_cast<__mmask16>(w.active | (1 << i));
    w.first_key = std::min(w.first_key, first);
    w.last_key = std::max(w.last_key, last);
  }
  return w.active != 0;
}

ZU_TARGET_AMX inline __mmask16 sees(const Work& w, __m512i first, __m512i last, int64_t key) {
  const __m512i j = _mm512_set1_epi32(static_cast<int>(key));
  return _mm512_mask_cmple_epi32_mask(_mm512_mask_cmple_epi32_mask(w.active, first, j), j, last);
}

// high and low parts of the scores of the keys in [w.first_key, w.last_key], by whole tiles.
template <int P>
ZU_TARGET_AMX void raw_scores(const View& kv, int64_t d, int64_t steps, const Set& s, Work& w) {
  for (int64_t key = w.first_key / kSide * kSide; key <= w.last_key; key += kSide) {
    _tile_zero(0);
    _tile_zero(1);
    for (int64_t step = 0; step < steps; ++step) {
      _tile_loadd(2, kv.key_hi + key * d + step * kDepth, d);
      _tile_loadd(4, s.codes + step * 2 * kTileBytes, kRowBytes);
      _tile_loadd(5, s.codes + (step * 2 + 1) * kTileBytes, kRowBytes);
      _tile_dpbssd(0, 2, 4);
      _tile_dpbssd(1, 2, 5);
      if (P == 2) {
        _tile_loadd(3, kv.key_lo + key * d + step * kDepth, d);
        _tile_dpbssd(1, 3, 4);
      }
    }
    _tile_stored(0, w.high + key * kSide, kRowBytes);
    _tile_stored(1, w.low + key * kSide, kRowBytes);
  }
}

// From scores to the block's exponents, per query: u in place of the high parts, n, F; queries with a fault become inactive.
ZU_TARGET_AMX void scale_scores(const View& kv, Set& s, Work& w) {
  const __m512 infinity = _mm512_castsi512_ps(_mm512_set1_epi32(0x7F800000));
  const __m512i first = load(w.first), last = load(w.last);
  __m512 top = _mm512_sub_ps(_mm512_setzero_ps(), infinity);
  __m512i exponent = _mm512_set1_epi32(kv_cache::kZeroRow);
  __mmask16 bad = 0;
  for (int64_t key = w.first_key; key <= w.last_key; ++key) {
    const __mmask16 lanes = sees(w, first, last, key);
    int32_t* at = w.high + key * kSide;
    const __m512i acc = _mm512_add_epi32(_mm512_slli_epi32(load(at), 7), load(w.low + key * kSide));
    const __m512 u = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), _mm512_set1_ps(kv.key_scales[key]));
    _mm512_storeu_ps(at, u);
    bad = static_cast<__mmask16>(bad | _mm512_mask_cmp_ps_mask(lanes, _mm512_abs_ps(u), infinity, _CMP_NLT_UQ));
    top = _mm512_mask_max_ps(top, lanes, top, u);
    exponent = _mm512_mask_max_epi32(exponent, lanes, exponent, _mm512_set1_epi32(kv.value_exponents[key]));
  }
  const __m512 ct = _mm512_mul_ps(_mm512_loadu_ps(s.c), top);
  bad = static_cast<__mmask16>(bad | _mm512_cmp_ps_mask(_mm512_abs_ps(ct), _mm512_set1_ps(kScoreLimit), _CMP_NLT_UQ));
  s.fault = static_cast<__mmask16>(s.fault | (bad & w.active));
  w.active = static_cast<__mmask16>(w.active & ~bad);
  w.n = _mm512_add_ps(_mm512_roundscale_ps(ct, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC), _mm512_set1_ps(1.0f));
  w.f = _mm512_mask_mov_epi32(exponent, _mm512_cmpeq_epi32_mask(exponent, _mm512_set1_epi32(kv_cache::kZeroRow)), _mm512_setzero_si512());
}

// Weights of the visible keys (contract.h, weights()): their sum, and p as B tiles, zero where a key is not visible.
ZU_TARGET_AMX void make_weights(const View& kv, const Set& s, Work& w) {
  const __m512 c = _mm512_loadu_ps(s.c), minus_n = _mm512_sub_ps(_mm512_setzero_ps(), w.n), limit = _mm512_set1_ps(kProbabilityTop);
  const __m512i first = load(w.first), last = load(w.last), bias = _mm512_sub_epi32(_mm512_set1_epi32(127), w.f), low7 = _mm512_set1_epi32(127);
  __m512i sum = _mm512_setzero_si512();
  for (int64_t quad = w.first_key / kDepth * (kDepth / 4); quad < (w.last_key / kDepth + 1) * (kDepth / 4); ++quad) {
    __m512i hi = _mm512_setzero_si512(), lo = hi;
    for (int i = 0; i < 4; ++i) {
      const int64_t key = 4 * quad + i;
      const __mmask16 lanes = sees(w, first, last, key);
      if (lanes == 0) continue;
      const __m512 t = _mm512_mul_ps(limit, avx512::exp2_3(_mm512_fmadd_ps(_mm512_loadu_ps(w.high + key * kSide), c, minus_n)));
      sum = _mm512_add_epi32(sum, _mm512_maskz_cvtps_epi32(lanes, t));
      const int8_t e = kv.value_exponents[key];
      if (e == kv_cache::kZeroRow) continue;
      const __m512 factor = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_set1_epi32(e), bias), 23));
      const __m512i p = _mm512_maskz_cvtps_epi32(lanes, _mm512_mul_ps(t, factor));
      const auto shift = static_cast<unsigned>(8 * i);
      hi = _mm512_or_si512(hi, _mm512_slli_epi32(_mm512_srli_epi32(p, 7), shift));
      lo = _mm512_or_si512(lo, _mm512_slli_epi32(_mm512_and_si512(p, low7), shift));
    }
    int8_t* to = w.p + quad / (kDepth / 4) * 2 * kTileBytes + quad % (kDepth / 4) * kRowBytes;
    _mm512_store_si512(to, hi);
    _mm512_store_si512(to + kTileBytes, lo);
  }
  w.b = sum;
}

// Per query, as contract.h has it; lanes outside `lanes` keep their state.
struct Factors {
  alignas(64) float keep[kSide], gain[kSide];
};
Factors align_lanes(const State (&states)[kSide], const float (&n)[kSide], __mmask16 lanes, float (&aligned)[kSide]) {
  Factors f{};
  for (int i = 0; i < kSide; ++i) {
    if ((lanes & (1 << i)) == 0) {
      f.keep[i] = 1.0f;
      continue;
    }
    const Alignment al = align(states[i], n[i]);
    aligned[i] = al.n;
    f.keep[i] = al.keep;
    f.gain[i] = al.gain;
  }
  return f;
}

// The values of the block into the active queries' groups: A = sum of p v by element, merged at once.
ZU_TARGET_AMX void add_values(const View& kv, int64_t d, Set& s, Work& w) {
  alignas(64) float n[kSide], aligned[kSide];
  alignas(64) int32_t b[kSide], f[kSide];
  _mm512_store_ps(n, w.n);
  _mm512_store_si512(b, w.b);
  _mm512_store_si512(f, w.f);
  const Factors factors = align_lanes(s.group, n, w.active, aligned);
  alignas(64) float gain[kSide];
  for (int i = 0; i < kSide; ++i) {
    if ((w.active & (1 << i)) == 0) continue;
    gain[i] = factors.gain[i] * num::pow2(f[i]);
    State& state = s.group[i];
    state.l *= factors.keep[i];
    if (factors.gain[i] != 0) state.l = std::fma(num::i2f(b[i]), factors.gain[i], state.l);
    state.n = aligned[i];
    state.empty = false;
  }
  const __m512 keep = _mm512_load_ps(factors.keep), gains = _mm512_load_ps(gain);
  const __mmask16 adds = _mm512_mask_cmp_ps_mask(w.active, _mm512_load_ps(factors.gain), _mm512_setzero_ps(), _CMP_NEQ_UQ);
  const int64_t first_half = w.first_key / kDepth, last_half = w.last_key / kDepth;
  for (int64_t element = 0; element < d; element += kSide) {
    _tile_zero(0);
    _tile_zero(1);
    for (int64_t half = first_half; half <= last_half; ++half) {
      _tile_loadd(2, kv.values + element * kBlock + half * kDepth, kBlock);
      _tile_loadd(4, w.p + half * 2 * kTileBytes, kRowBytes);
      _tile_loadd(5, w.p + (half * 2 + 1) * kTileBytes, kRowBytes);
      _tile_dpbssd(0, 2, 4);
      _tile_dpbssd(1, 2, 5);
    }
    _tile_stored(0, w.a, kRowBytes);
    _tile_stored(1, w.a + kSide * kSide, kRowBytes);
    for (int64_t i = 0; i < kSide; ++i) {
      float* o = s.o_group + (element + i) * kSide;
      const __m512i a = _mm512_add_epi32(_mm512_slli_epi32(load(w.a + i * kSide), 7), load(w.a + (kSide + i) * kSide));
      const __m512 kept = _mm512_mul_ps(_mm512_load_ps(o), keep);
      _mm512_store_ps(o, _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(a), gains, kept, adds));
    }
  }
}

// Merges the groups of the queries in `lanes` into their totals and empties them.
ZU_TARGET_AMX void end_group(int64_t d, Set& s, __mmask16 lanes) {
  alignas(64) float n[kSide], aligned[kSide];
  for (int i = 0; i < kSide; ++i) n[i] = s.group[i].n;
  const Factors factors = align_lanes(s.total, n, lanes, aligned);
  for (int i = 0; i < kSide; ++i) {
    if ((lanes & (1 << i)) == 0) continue;
    s.total[i].l = s.total[i].l * factors.keep[i] + s.group[i].l * factors.gain[i];
    s.total[i].n = aligned[i];
    s.total[i].empty = false;
    s.group[i] = {};
  }
  const __m512 keep = _mm512_load_ps(factors.keep), gain = _mm512_load_ps(factors.gain);
  for (int64_t e = 0; e < d; ++e) {
    float *total = s.o_total + e * kSide, *group = s.o_group + e * kSide;
    const __m512 t = _mm512_load_ps(total), o = _mm512_load_ps(group);
    _mm512_store_ps(total, _mm512_mask_add_ps(t, lanes, _mm512_mul_ps(t, keep), _mm512_mul_ps(o, gain)));
    _mm512_store_ps(group, _mm512_maskz_mov_ps(static_cast<__mmask16>(~lanes), o));
  }
}

template <int P>
void attend(const Args& g, int64_t block, const View& kv, Set& s, Work& w) {
  if (!find_visible(block, s, w)) return;
  raw_scores<P>(kv, g.layout.d, steps_of(g.layout), s, w);
  scale_scores(kv, s, w);
  if (w.active == 0) return;
  make_weights(kv, s, w);
  amx::stores_before_tile_loads();
  add_values(kv, g.layout.d, s, w);
  __mmask16 ending = w.active;
  if (block % kGroup != kGroup - 1)
    for (int i = 0; i < kSide; ++i)
      if (block != s.position[i] / kBlock) ending = static_cast<__mmask16>(ending & ~(1 << i));
  if (ending != 0) end_group(g.layout.d, s, ending);
}

ZU_TARGET_AMX void finish(const Args& g, const Set& s) {
  const int64_t d = g.layout.d;
  alignas(64) float l[kSide];
  for (int i = 0; i < kSide; ++i) l[i] = s.total[i].l;
  for (int64_t element = 0; element < d; element += kSide) {
    __m512i v[kSide];
    ZU_UNROLL for (int i = 0; i < kSide; ++i) v[i] =
        _mm512_castps_si512(_mm512_div_ps(_mm512_load_ps(s.o_total + (element + i) * kSide), _mm512_load_ps(l)));
    avx512::transpose(v);
    ZU_UNROLL for (int i = 0; i < kSide; ++i) {
      if ((s.exists & (1 << i)) == 0) continue;
      uint16_t* out = g.out + s.row[i] * g.out_stride + s.head[i] * d + element;
      if ((s.fault & (1 << i)) == 0)
        avx512::store_bf16(out, _mm512_castsi512_ps(v[i]));
      else
        std::fill_n(out, kSide, num::kBf16Nan);
    }
  }
  for (int i = 0; i < kSide; ++i)
    if ((s.exists & s.fault & (1 << i)) != 0) g.faults[s.row[i] * g.faults_stride] = 1;
}

template <int P>
void run(const Args& g) {
  std::byte* const memory = scratch_of(g, amx_int8_scratch_bytes(g.layout));
  Work w{};
  w.high = reinterpret_cast<int32_t*>(memory + kSets * set_bytes(g.layout));
  w.low = w.high + kBlock * kSide;
  w.a = w.low + kBlock * kSide;
  w.p = reinterpret_cast<int8_t*>(w.a + 2 * kSide * kSide);
  const amx::Tiles tiles;
  Set sets[kSets];
  const int64_t queries = g.rows * g.group;
  for (int64_t query = 0; query < queries; query += kSets * kSide) {
    const int64_t count = std::min(kSets, (queries - query + kSide - 1) / kSide);
    int64_t first_block = INT64_MAX, last_block = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = query + i * kSide, last = std::min(first + kSide, queries) - 1;
      make_set(g, first, last - first + 1, memory + i * set_bytes(g.layout), sets[i]);
      first_block = std::min(first_block, int64_t{sets[i].first_key[0]} / kBlock);
      last_block = std::max(last_block, (g.first_position + last / g.group) / kBlock);
    }
    amx::stores_before_tile_loads();
    for (int64_t block = first_block; block <= last_block; ++block) {
      const View kv(g.pages[block] + g.page_offset, g.layout);
      for (int64_t i = 0; i < count; ++i) attend<P>(g, block, kv, sets[i], w);
    }
    for (int64_t i = 0; i < count; ++i) finish(g, sets[i]);
  }
}

}  // namespace

int64_t amx_int8_scratch_bytes(const Layout& l) {
  return kSets * set_bytes(l) + 2 * kBlock * kSide * 4 + 2 * kSide * kSide * 4 + kHalves * 2 * kTileBytes;
}

void amx_int8(const Args& g) {
  // A last tile of elements that reaches beyond d would read behind the block.
  if (g.layout.d % kSide != 0 || g.rows * g.group <= kFewQueries) return avx512_vnni(g);
  g.layout.key_width == 15 ? run<2>(g) : run<1>(g);
}

}  // namespace zeroulp::ops::attention
#endif
