// linear_s8 on AVX-512 VNNI. vpdpbusd multiplies unsigned by signed bytes: weights become w + 128 (a flip of the top bit), and
// 128 * sum(plane) is taken off again. The 15-bit codes go as two int8 planes, acc = 128 * hi + lo.
//
// Bound: the sum of a plane with the weights is below 2^31 to K = 131072 (contract.h). The sum with w + 128 may pass it, but vpdpbusd
// wraps (vpdpbusds, which saturates, must not be used) and the subtraction wraps back. Proof: tests/ops/linear_s8_test.cpp.
//
// Few rows: each channel's weights are read once, in place, along K, with 4 channels in flight. Many rows: 32 channels are packed so
// that a vector holds 4 codes of 16 channels; sums then need no work across lanes.
#include <algorithm>
#include <cstring>

#include "ops/linear_s8/fast.h"
#include "ops/linear_s8/sums_avx512.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int64_t kPanel = 64;            // few rows: channels whose sums wait for the epilogue
constexpr int64_t kFewRows = 5;          // up to here packing the weights does not pay
constexpr int64_t kChunkBytes = 1 << 20;  // activation planes that are worked on together: they stay in the second-level cache

// Some rows' codes as int8 planes: [row][plane][padded], zero behind k.
struct Planes {
  int8_t* bytes;
  int64_t padded;                 // an odd multiple of 64, so that rows do not fall on the same cache sets
  int32_t* offsets;               // [row][plane]: 128 * sum(plane)
};

ZU_TARGET_AVX512 void pack_row(const int16_t* codes, int64_t k, int planes, int64_t padded, int8_t* out, int32_t* offsets) {
  const __m512i ones = _mm512_set1_epi16(1);
  __m512i sum_hi = _mm512_setzero_si512(), sum_lo = sum_hi;
  for (int64_t i = 0; i < padded; i += 32) {
    const auto lanes = static_cast<__mmask32>(avx512::first_bytes(std::clamp<int64_t>(k - i, 0, 32)));
    const __m512i q = _mm512_maskz_loadu_epi16(lanes, codes + i);
    __m512i hi = q;
    if (planes == 2) {
      hi = _mm512_srai_epi16(_mm512_add_epi16(q, _mm512_set1_epi16(64)), 7);
      const __m512i lo = _mm512_sub_epi16(q, _mm512_slli_epi16(hi, 7));
      sum_lo = _mm512_add_epi32(sum_lo, _mm512_madd_epi16(lo, ones));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + padded + i), _mm512_cvtepi16_epi8(lo));
    }
    sum_hi = _mm512_add_epi32(sum_hi, _mm512_madd_epi16(hi, ones));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm512_cvtepi16_epi8(hi));
  }
  offsets[0] = 128 * _mm512_reduce_add_epi32(sum_hi);
  if (planes == 2) offsets[1] = 128 * _mm512_reduce_add_epi32(sum_lo);
}

void pack_rows(const Args& a, int64_t row, int64_t count, int planes, const Planes& to) {
  for (int64_t r = 0; r < count; ++r)
    pack_row(a.codes + (row + r) * a.codes_stride, a.k, planes, to.padded, to.bytes + r * planes * to.padded,
             to.offsets + r * planes);
}

// linear_s8::store for `count` channels of one row from the sums of its planes: hi[count], and lo[count] behind it at `to_lo`.
template <int P>
ZU_TARGET_AVX512 void store_row(const Args& a, int64_t row, int64_t channel, int64_t count, const int32_t* sums,
                                int64_t to_lo) {
  const __m512 sa = _mm512_set1_ps(a.row_scales[row]);
  for (int64_t c = 0; c < count; c += 16) {
    const __mmask16 lanes = avx512::first(count - c);
    const int64_t at = row * a.y_stride + channel + c;
    const __m512i hi = _mm512_load_si512(sums + c);
    const __m512i lo = P == 2 ? _mm512_load_si512(sums + to_lo + c) : hi;
    if (a.output == Output::kPartial) {
      const __m512i none = _mm512_setzero_si512();
      auto* y = static_cast<int64_t*>(a.y) + at;
      _mm512_mask_storeu_epi64(y, static_cast<__mmask8>(lanes),
                               P == 2 ? avx512::join_planes_low(hi, lo, 7) : avx512::join_planes_low(none, hi, 0));
      _mm512_mask_storeu_epi64(y + 8, static_cast<__mmask8>(lanes >> 8),
                               P == 2 ? avx512::join_planes_high(hi, lo, 7) : avx512::join_planes_high(none, hi, 0));
      continue;
    }
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, a.channel_scales + channel + c), i2f_sums<P>(a.k, hi, lo));
    const __m512 y =
        a.bias ? _mm512_fmadd_ps(sa, scaled, _mm512_maskz_loadu_ps(lanes, a.bias + channel + c)) : _mm512_mul_ps(sa, scaled);
    if (a.output == Output::kBf16)
      avx512::store_bf16(static_cast<uint16_t*>(a.y) + at, y, lanes);
    else
      _mm512_mask_storeu_ps(static_cast<float*>(a.y) + at, lanes, y);
  }
}

// ---- few rows

// The sums over the lanes of four vectors.
ZU_TARGET_AVX512 inline __m128i sum_lanes(__m512i v0, __m512i v1, __m512i v2, __m512i v3) {
  const __m512i v01 = _mm512_add_epi32(_mm512_unpacklo_epi32(v0, v1), _mm512_unpackhi_epi32(v0, v1));
  const __m512i v23 = _mm512_add_epi32(_mm512_unpacklo_epi32(v2, v3), _mm512_unpackhi_epi32(v2, v3));
  const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(v01, v23), _mm512_unpackhi_epi64(v01, v23));
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// Weights come from memory here, and hardware follows several places at once better than one: a panel is kRun channels from each of kStreams
// places of the matrix, `apart` channels from one place to the next.
constexpr int64_t kStreams = 4, kRun = kPanel / kStreams;
constexpr int64_t kAhead = 2048;  // bytes to prefetch before they are wanted; 1 to 4 KiB measure alike

// V = rows * planes vectors of activations by `run` <= kRun channels of each stream. sums: V rows of [stream][kRun].
template <int V>
ZU_TARGET_AVX512 void dot_panel(const Args& a, const int8_t* planes, int64_t padded, const int32_t* offsets,
                                const int8_t* weights, int64_t apart, int64_t run, int32_t* sums) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
  for (int64_t at = 0; at < run; ++at) {
    const int8_t* w_at[kStreams];
    ZU_UNROLL for (int c = 0; c < kStreams; ++c) w_at[c] = weights + (c * apart + at) * a.weights_stride;
    __m512i acc[V][kStreams];
    ZU_UNROLL for (int v = 0; v < V; ++v) ZU_UNROLL for (int c = 0; c < kStreams; ++c) acc[v][c] = _mm512_setzero_si512();
    int64_t i = 0;
    do {  // k >= 1
      const __mmask64 bytes = avx512::first_bytes(a.k - i);
      __m512i w[kStreams];
      ZU_UNROLL for (int c = 0; c < kStreams; ++c) {
        _mm_prefetch(w_at[c] + i + kAhead, _MM_HINT_T0);
        w[c] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(bytes, w_at[c] + i), flip);
      }
      ZU_UNROLL for (int v = 0; v < V; ++v) {
        const __m512i x = _mm512_load_si512(planes + v * padded + i);
        ZU_UNROLL for (int c = 0; c < kStreams; ++c) acc[v][c] = _mm512_dpbusd_epi32(acc[v][c], w[c], x);
      }
      i += kVector;
    } while (i < a.k);
    ZU_UNROLL for (int v = 0; v < V; ++v) {
      const __m128i four = _mm_sub_epi32(sum_lanes(acc[v][0], acc[v][1], acc[v][2], acc[v][3]), _mm_set1_epi32(offsets[v]));
      int32_t* to = sums + v * kPanel + at;
      to[0] = _mm_extract_epi32(four, 0);
      to[kRun] = _mm_extract_epi32(four, 1);
      to[2 * kRun] = _mm_extract_epi32(four, 2);
      to[3 * kRun] = _mm_extract_epi32(four, 3);
    }
  }
}

template <int P>
void dot_rows(const Args& a, const Planes& planes) {
  constexpr int64_t kRows = 2;  // with three, g++ runs out of registers
  // Channels [first, first + run) and those 1, 2, 3 times `apart` further on.
  const auto panel = [&](int64_t first, int64_t apart, int64_t run) {
    for (int64_t row = 0; row < a.rows; row += kRows) {
      const int64_t rows = std::min(kRows, a.rows - row);
      const auto dots = rows == 1 ? dot_panel<P> : dot_panel<2 * P>;
      alignas(64) int32_t sums[kRows * P * kPanel];
      dots(a, planes.bytes + row * P * planes.padded, planes.padded, planes.offsets + row * P,
           a.weights + first * a.weights_stride, apart, run, sums);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t s = 0; s < (apart == 0 ? 1 : kStreams); ++s)
          store_row<P>(a, row + r, first + s * apart, run, sums + r * P * kPanel + s * kRun, kPanel);
    }
  };
  const int64_t apart = a.n / kStreams;
  for (int64_t at = 0; at < apart; at += kRun) panel(at, apart, std::min(kRun, apart - at));
  if (const int64_t rest = a.n % kStreams) panel(a.n - rest, 0, rest);  // every stream is the same then
}

// ---- many rows

// Weights of 32 channels, w + 128, as [k / 4][32 channels][4]; `channels` of them exist.
ZU_TARGET_AVX512 void pack_weights(const Args& a, int64_t channel, int64_t channels, int8_t* out) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t i = 0; i < a.k; i += kVector) {
      const __mmask64 bytes = avx512::first_bytes(a.k - i);
      __m512i v[16];
      ZU_UNROLL for (int c = 0; c < 16; ++c) {
        const int64_t at = half * 16 + c;
        const int8_t* w = a.weights + (channel + std::min(at, channels - 1)) * a.weights_stride + i;
        v[c] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(bytes, w), flip);
      }
      avx512::transpose(v);
      ZU_UNROLL for (int q = 0; q < 16; ++q) _mm512_store_si512(out + (i / 4 + q) * 128 + half * kVector, v[q]);
    }
  }
}

// `tiles` times V = rows * planes vectors of activations by 32 channels.
template <int P, int V>
ZU_TARGET_AVX512 void panel_tiles(const Args& a, int64_t row, int64_t tiles, int64_t channel, int64_t channels,
                                  const int8_t* planes, int64_t padded, const int32_t* offsets, const int8_t* weights) {
  for (; tiles > 0; --tiles, row += V / P, planes += V * padded, offsets += V) {
    __m512i acc[V][2];
    ZU_UNROLL for (int v = 0; v < V; ++v) acc[v][0] = acc[v][1] = _mm512_set1_epi32(-offsets[v]);
    for (int64_t i = 0; i < a.k; i += 4) {
      const __m512i w0 = _mm512_load_si512(weights + i * 32), w1 = _mm512_load_si512(weights + i * 32 + kVector);
      ZU_UNROLL for (int v = 0; v < V; ++v) {
        int32_t four;
        std::memcpy(&four, planes + v * padded + i, 4);
        const __m512i x = _mm512_set1_epi32(four);
        acc[v][0] = _mm512_dpbusd_epi32(acc[v][0], w0, x);
        acc[v][1] = _mm512_dpbusd_epi32(acc[v][1], w1, x);
      }
    }
    alignas(64) int32_t sums[V * 32];
    ZU_UNROLL for (int v = 0; v < V; ++v) {
      _mm512_store_si512(sums + v * 32, acc[v][0]);
      _mm512_store_si512(sums + v * 32 + 16, acc[v][1]);
    }
    for (int64_t r = 0; r < V / P; ++r) store_row<P>(a, row + r, channel, channels, sums + r * P * 32, 32);
  }
}

// Rows [row, row + count) of one panel: tiles of 12 activation vectors, then what is left in smaller ones.
template <int P>
void panel_rows(const Args& a, int64_t row, int64_t count, int64_t channel, int64_t channels, const Planes& planes,
                const int8_t* weights) {
  int64_t r = 0;
  const auto sweep = [&](auto tiles, int64_t rows) {
    const int64_t times = (count - r) / rows;
    tiles(a, row + r, times, channel, channels, planes.bytes + r * P * planes.padded, planes.padded,
          planes.offsets + r * P, weights);
    r += times * rows;
  };
  sweep(panel_tiles<P, 12>, 12 / P);
  sweep(panel_tiles<P, 8>, 8 / P);
  sweep(panel_tiles<P, 4>, 4 / P);
  sweep(panel_tiles<P, 2>, 2 / P);
  sweep(panel_tiles<P, P>, 1);
}

int64_t padded_k(int64_t k) { return round_up(k, kVector) | kVector; }

// Rows that are worked on together.
int64_t chunk_rows(int64_t rows, int64_t k, int64_t planes) {
  if (rows <= kFewRows) return rows;
  return std::min(rows, std::max<int64_t>(2, kChunkBytes / (12 * padded_k(k))) * (12 / planes));
}

int64_t scratch_bytes_of(int64_t rows, int64_t k, int64_t planes) {
  const int64_t vectors = chunk_rows(rows, k, planes) * planes;
  return (vectors + 32) * padded_k(k) + round_up(vectors * 4, kVector);
}

template <int P>
void run(const Args& a) {
  const int64_t padded = padded_k(a.k), chunk = chunk_rows(a.rows, a.k, P);
  auto* memory = reinterpret_cast<int8_t*>(scratch(a, scratch_bytes_of(a.rows, a.k, P)));
  int8_t* const weights = memory + chunk * P * padded;
  const Planes planes{memory, padded, reinterpret_cast<int32_t*>(weights + 32 * padded)};
  if (a.rows <= kFewRows) {
    pack_rows(a, 0, a.rows, P, planes);
    return dot_rows<P>(a, planes);
  }
  for (int64_t row = 0; row < a.rows; row += chunk) {
    const int64_t count = std::min(chunk, a.rows - row);
    pack_rows(a, row, count, P, planes);
    for (int64_t channel = 0; channel < a.n; channel += 32) {
      const int64_t channels = std::min<int64_t>(32, a.n - channel);
      pack_weights(a, channel, channels, weights);
      panel_rows<P>(a, row, count, channel, channels, planes, weights);
    }
  }
}

}  // namespace

int64_t avx512_vnni_scratch_bytes(int64_t rows, int64_t k) { return std::max(scratch_bytes_of(rows, k, 1), scratch_bytes_of(rows, k, 2)); }

void avx512_vnni(const Args& a) { a.width == 15 ? run<2>(a) : run<1>(a); }

}  // namespace zeroulp::ops::linear_s8
#endif
