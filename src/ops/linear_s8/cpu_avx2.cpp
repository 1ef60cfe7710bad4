// linear_s8 on AVX2. vpmaddwd of the 15-bit codes with sign-extended weights: pair sums are exact in int32 (vpmaddubsw would saturate
// at int16), so both activation widths take the same path.
//
// Few rows wait for the weights, which come from memory once, in the order in which hardware fetches best. Many rows wait for the
// multipliers: weights are widened to 16 bits once for all rows (panels), in an order that needs no sum across lanes, and what is left is a
// vpmaddwd and a vpaddd for 16 products.
//
// Bounds: few rows: a 32-bit lane grows by at most 2 * 16256 * 127 a step, 520 steps stay below 2^31; then it is widened to 64 bits. Panels: a
// lane is a channel's sum over a panel's depth, and of all panels where the width of the codes and k keep that below 2^31; else panels are
// added in double. Sums become floats by one conversion, from int32 or from double (exact below 2^53).
// Proof: tests/ops/linear_s8_test.cpp.
#include "ops/linear_s8/fast.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int64_t kStep = 16;            // codes to one vpmaddwd
constexpr int64_t kChunk = 520 * kStep;  // codes that a 32-bit lane can take
constexpr int64_t kFewRows = 12;
constexpr int64_t kRun = 64;             // few rows: channels whose sums wait for the epilogue
static_assert((kChunk / kStep) * 2 * 16256 * 127 < (int64_t{1} << 31));

// Up to four rows of codes. `tails` holds each row's last kStep codes with those zeroed that a whole step has already taken, so that a
// row's end needs no load beyond it.
struct Rows {
  const int16_t* codes;
  int64_t stride, k;
  int16_t tails[4][kStep];
};

Rows make_rows(const Args& a, int64_t row, int64_t count) {
  Rows rows{a.codes + row * a.codes_stride, a.codes_stride, a.k, {}};
  const int64_t rest = a.k % kStep;
  for (int64_t r = 0; r < count; ++r)
    for (int64_t i = kStep - rest; i < kStep; ++i) rows.tails[r][i] = rows.codes[r * rows.stride + a.k - kStep + i];
  return rows;
}

ZU_TARGET_AVX2 inline __m256i load_codes(const int16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
ZU_TARGET_AVX2 inline __m256i load_weights(const int8_t* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Eight sums as floats, rounded once.
ZU_TARGET_AVX2 inline __m256 floats_of(const double* sums) {
  return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(sums + 4)), _mm256_cvtpd_ps(_mm256_loadu_pd(sums)));
}
ZU_TARGET_AVX2 inline __m256 floats_of(const int32_t* sums) {
  return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums)));
}

// linear_s8::store for `count` channels of one row, eight at a time. The sums are whole numbers.
template <class Sum>
ZU_TARGET_AVX2 void store_row(const Args& a, int64_t row, int64_t channel, int64_t count, const Sum* sums) {
  int64_t c = 0;
  if (a.output != Output::kPartial) {
    const __m256 sa = _mm256_set1_ps(a.row_scales[row]);
    for (; c + 8 <= count; c += 8) {
      const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(a.channel_scales + channel + c), floats_of(sums + c));
      const __m256 y = a.bias ? _mm256_fmadd_ps(sa, scaled, _mm256_loadu_ps(a.bias + channel + c)) : _mm256_mul_ps(sa, scaled);
      const int64_t at = row * a.y_stride + channel + c;
      if (a.output == Output::kBf16)
        avx2::store_bf16(static_cast<uint16_t*>(a.y) + at, y);
      else
        _mm256_storeu_ps(static_cast<float*>(a.y) + at, y);
    }
  }
  for (; c < count; ++c) store(a, row, channel + c, static_cast<int64_t>(sums[c]));
}

// R rows by C channels, weights_stride apart. sums: R rows of kRun, in each the C sums `apart` apart.
template <int R, int C>
ZU_TARGET_AVX2 void few_tile(const Rows& rows, const int8_t* weights, int64_t weights_stride, double* sums, int64_t apart) {
  const int64_t whole = rows.k - rows.k % kStep;
  __m256i wide[R][C];
  ZU_UNROLL for (int r = 0; r < R; ++r) ZU_UNROLL for (int c = 0; c < C; ++c) wide[r][c] = _mm256_setzero_si256();
  for (int64_t start = 0; start < whole; start += kChunk) {
    const int64_t end = std::min(whole, start + kChunk);
    __m256i acc[R][C];
    ZU_UNROLL for (int r = 0; r < R; ++r) ZU_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = _mm256_setzero_si256();
    for (int64_t i = start; i < end; i += kStep) {
      __m256i w[C];
      ZU_UNROLL for (int c = 0; c < C; ++c) w[c] = load_weights(weights + c * weights_stride + i);
      ZU_UNROLL for (int r = 0; r < R; ++r) {
        const __m256i x = load_codes(rows.codes + r * rows.stride + i);
        ZU_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = _mm256_add_epi32(acc[r][c], _mm256_madd_epi16(x, w[c]));
      }
    }
    ZU_UNROLL for (int r = 0; r < R; ++r) ZU_UNROLL for (int c = 0; c < C; ++c) {
      wide[r][c] = _mm256_add_epi64(wide[r][c], avx2::widen_sum(acc[r][c]));
    }
  }
  if (whole != rows.k) {
    ZU_UNROLL for (int c = 0; c < C; ++c) {
      const __m256i w = load_weights(weights + c * weights_stride + rows.k - kStep);
      ZU_UNROLL for (int r = 0; r < R; ++r) {
        wide[r][c] = _mm256_add_epi64(wide[r][c], avx2::widen_sum(_mm256_madd_epi16(load_codes(rows.tails[r]), w)));
      }
    }
  }
  ZU_UNROLL for (int r = 0; r < R; ++r) ZU_UNROLL for (int c = 0; c < C; ++c) sums[r * kRun + c * apart] =
      static_cast<double>(avx2::sum_lanes_64(wide[r][c]));
}

// Rows in groups of four, by all channels. Weights come from memory here, and hardware follows several places at once better than one: a
// tile's C channels stand at C places of the matrix, each read from front to back.
template <int C>
void few_rows(const Args& a) {
  constexpr int64_t kEach = kRun / C;
  using Tile = void(const Rows&, const int8_t*, int64_t, double*, int64_t);
  static constexpr Tile* kTile[] = {few_tile<1, C>, few_tile<2, C>, few_tile<3, C>, few_tile<4, C>};
  static constexpr Tile* kColumn[] = {few_tile<1, 1>, few_tile<2, 1>, few_tile<3, 1>, few_tile<4, 1>};
  Rows groups[kFewRows / 4];
  for (int64_t r = 0; r < a.rows; r += 4) groups[r / 4] = make_rows(a, r, std::min<int64_t>(4, a.rows - r));
  double sums[kFewRows * kRun];
  const int64_t apart = a.n / C;
  for (int64_t at = 0; at < apart; at += kEach) {
    const int64_t run = std::min(kEach, apart - at);
    for (int64_t i = 0; i < run; ++i)
      for (int64_t r = 0; r < a.rows; r += 4)
        kTile[std::min<int64_t>(3, a.rows - r - 1)](groups[r / 4], a.weights + (at + i) * a.weights_stride, apart * a.weights_stride,
                                                    sums + r * kRun + i, kEach);
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t c = 0; c < C; ++c) store_row(a, r, c * apart + at, run, sums + r * kRun + c * kEach);
  }
  const int64_t rest = a.n % C, first = a.n - rest;
  for (int64_t r = 0; r < a.rows; r += 4)
    for (int64_t c = 0; c < rest; ++c)
      kColumn[std::min<int64_t>(3, a.rows - r - 1)](groups[r / 4], a.weights + (first + c) * a.weights_stride, a.weights_stride,
                                                    sums + r * kRun + c, 1);
  for (int64_t r = 0; r < a.rows; ++r) store_row(a, r, first, rest, sums + r * kRun);
}

// Many rows: a panel of up to kPanel channels by kDepth codes, widened; eight channels to a vector, two codes of each side by side:
//
//   codes 0, 1 of channels 0..7 | of channels 8..15 | of channels 16..23 | codes 2, 3 of channels 0..7 | ...
//
// so that two codes of a row, in every lane, meet them in one vpmaddwd, and a lane is a channel's sum. Zeros stand where the channels or k end.
constexpr int64_t kVectorChannels = 8, kTileRows = 4;
constexpr int64_t kPanel = 3 * kVectorChannels, kDepth = 640;  // 30 KiB: with four rows' codes about the first-level cache
constexpr int64_t kRowBlock = 256;
static_assert(kDepth % kStep == 0 && kDepth * 16256 * 127 < (int64_t{1} << 31));

struct Panel {
  alignas(64) int16_t weights[kPanel * kDepth];
  int64_t first, depth;  // its codes
};

// Codes [at, at + 16) of a channel, zero from `end` on.
ZU_TARGET_AVX2 inline __m256i load_weights_until(const int8_t* channel, int64_t at, int64_t end) {
  if (at + kStep <= end) return load_weights(channel + at);
  alignas(16) int8_t bytes[kStep] = {};
  std::memcpy(bytes, channel + at, static_cast<size_t>(end - at));
  return load_weights(bytes);
}

ZU_TARGET_AVX2 void widen_panel(const Args& a, int64_t channel, int64_t channels, int64_t first, Panel& p) {
  p.first = first;
  p.depth = std::min(kDepth, a.k - first);
  const int64_t vectors = (channels + kVectorChannels - 1) / kVectorChannels;
  for (int64_t v = 0; v < vectors; ++v) {
    for (int64_t k = 0; k < p.depth; k += kStep) {
      __m256i w[kVectorChannels];
      ZU_UNROLL for (int64_t c = 0; c < kVectorChannels; ++c) {
        const int64_t of = v * kVectorChannels + c;
        w[c] = of < channels ? load_weights_until(a.weights + (channel + of) * a.weights_stride, first + k, a.k) : _mm256_setzero_si256();
      }
      avx2::transpose(w);
      ZU_UNROLL for (int64_t i = 0; i < kStep / 2; ++i)
        _mm256_store_si256(reinterpret_cast<__m256i*>(p.weights) + (k / 2 + i) * vectors + v, w[i]);
    }
  }
}

// sums = or += eight lanes.
ZU_TARGET_AVX2 inline void put(int32_t* sums, __m256i lanes, bool first) {
  auto* to = reinterpret_cast<__m256i*>(sums);
  _mm256_storeu_si256(to, first ? lanes : _mm256_add_epi32(lanes, _mm256_loadu_si256(to)));
}
ZU_TARGET_AVX2 inline void put(double* sums, __m256i lanes, bool first) {
  const __m256d low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(lanes)), high = _mm256_cvtepi32_pd(_mm256_extracti128_si256(lanes, 1));
  _mm256_storeu_pd(sums, first ? low : _mm256_add_pd(low, _mm256_loadu_pd(sums)));
  _mm256_storeu_pd(sums + 4, first ? high : _mm256_add_pd(high, _mm256_loadu_pd(sums + 4)));
}

// R rows from `codes` on by V vectors of channels, over a panel's depth. sums: R rows of kPanel.
template <int R, int V, class Sum>
ZU_TARGET_AVX2 void tile(const int16_t* codes, int64_t stride, const Panel& p, Sum* sums) {
  __m256i acc[R][V];
  ZU_UNROLL for (int r = 0; r < R; ++r) ZU_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm256_setzero_si256();
  const int16_t* x = codes + p.first;
  const auto* w = reinterpret_cast<const __m256i*>(p.weights);
  for (int64_t k = 0; k + 2 <= p.depth; k += 2, x += 2, w += V) {
    ZU_UNROLL for (int r = 0; r < R; ++r) {
      int32_t pair;
      std::memcpy(&pair, x + r * stride, sizeof pair);
      const __m256i two = _mm256_set1_epi32(pair);
      ZU_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_madd_epi16(two, _mm256_load_si256(w + v)));
    }
  }
  if (p.depth % 2 != 0) {  // a row's last code is the last thing that may be read
    ZU_UNROLL for (int r = 0; r < R; ++r) {
      const __m256i one = _mm256_set1_epi32(static_cast<uint16_t>(x[r * stride]));
      ZU_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_madd_epi16(one, _mm256_load_si256(w + v)));
    }
  }
  ZU_UNROLL for (int r = 0; r < R; ++r) ZU_UNROLL for (int v = 0; v < V; ++v) put(sums + r * kPanel + v * kVectorChannels, acc[r][v], p.first == 0);
}

template <class Sum>
void many_rows(const Args& a) {
  using Tile = void(const int16_t*, int64_t, const Panel&, Sum*);
  static constexpr Tile* kTile[kPanel / kVectorChannels][kTileRows] = {{tile<1, 1, Sum>, tile<2, 1, Sum>, tile<3, 1, Sum>, tile<4, 1, Sum>},
                                                                       {tile<1, 2, Sum>, tile<2, 2, Sum>, tile<3, 2, Sum>, tile<4, 2, Sum>},
                                                                       {tile<1, 3, Sum>, tile<2, 3, Sum>, tile<3, 3, Sum>, tile<4, 3, Sum>}};
  Panel p;
  Sum sums[kRowBlock * kPanel];
  for (int64_t first = 0; first < a.rows; first += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, a.rows - first);
    const int16_t* codes = a.codes + first * a.codes_stride;
    for (int64_t channel = 0; channel < a.n; channel += kPanel) {
      const int64_t channels = std::min(kPanel, a.n - channel);
      Tile* const* of_rows = kTile[(channels - 1) / kVectorChannels];
      for (int64_t k = 0; k < a.k; k += kDepth) {
        widen_panel(a, channel, channels, k, p);
        for (int64_t r = 0; r < rows; r += kTileRows)
          of_rows[std::min(kTileRows, rows - r) - 1](codes + r * a.codes_stride, a.codes_stride, p, sums + r * kPanel);
      }
      for (int64_t r = 0; r < rows; ++r) store_row(a, first + r, channel, channels, sums + r * kPanel);
    }
  }
}

}  // namespace

void avx2(const Args& a) {
  if (a.rows <= 2 && a.k >= kStep) return few_rows<4>(a);
  if (a.rows <= kFewRows && a.k >= kStep) return few_rows<2>(a);
  const int64_t largest = a.width == 15 ? 16256 : 127;
  return a.k * largest * 127 < (int64_t{1} << 31) ? many_rows<int32_t>(a) : many_rows<double>(a);
}

}  // namespace zeroulp::ops::linear_s8
#endif
