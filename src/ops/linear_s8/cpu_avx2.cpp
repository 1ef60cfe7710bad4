// linear_s8 on AVX2. vpmaddwd of the 15-bit codes with sign-extended weights: pair sums are exact in int32 (vpmaddubsw would saturate
// at int16), so both activation widths take the same path.
//
// Up to four rows wait for the weights, which come from memory once, in the order in which hardware fetches best. More rows wait for the
// multipliers: weights are widened to 16 bits once for all rows (panels), and what is left is a vpmaddwd and a vpaddd for 16 products.
//
// Bound: a 32-bit lane grows by at most 2 * 16256 * 127 a step, 520 steps stay below 2^31; then it is widened to 64 bits. A panel's depth is
// such that even the sum of all lanes is an int32. Sums become floats through double (exact below 2^53) and one conversion.
// Proof: tests/ops/linear_s8_test.cpp.
#include "ops/linear_s8/fast.h"
#include "ops/linear_s8/reference.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int64_t kStep = 16;            // codes to one vpmaddwd
constexpr int64_t kChunk = 520 * kStep;  // codes that a 32-bit lane can take
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

// linear_s8::store for `count` channels of one row, eight at a time. The sums are whole numbers.
ZU_TARGET_AVX2 void store_row(const Args& a, int64_t row, int64_t channel, int64_t count, const double* sums) {
  int64_t c = 0;
  if (a.output != Output::kPartial) {
    const __m256 sa = _mm256_set1_ps(a.row_scales[row]);
    for (; c + 8 <= count; c += 8) {
      const __m128 f0 = _mm256_cvtpd_ps(_mm256_loadu_pd(sums + c)), f1 = _mm256_cvtpd_ps(_mm256_loadu_pd(sums + c + 4));
      const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(a.channel_scales + channel + c), _mm256_set_m128(f1, f0));
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
ZU_TARGET_AVX2 void few_tile(const Rows& rows, const int8_t* weights, int64_t weights_stride, double* sums, int64_t apart = 1) {
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

// R rows by all channels. Weights come from memory here, and hardware follows several places at once better than one: a tile's C channels
// stand at C places of the matrix, each read from front to back.
template <int R, int C>
void few_rows(const Args& a) {
  constexpr int64_t kEach = kRun / C;
  const Rows rows = make_rows(a, 0, R);
  double sums[R * kRun];
  const int64_t apart = a.n / C;
  for (int64_t at = 0; at < apart; at += kEach) {
    const int64_t run = std::min(kEach, apart - at);
    for (int64_t i = 0; i < run; ++i)
      few_tile<R, C>(rows, a.weights + (at + i) * a.weights_stride, apart * a.weights_stride, sums + i, kEach);
    for (int64_t r = 0; r < R; ++r)
      for (int64_t c = 0; c < C; ++c) store_row(a, r, c * apart + at, run, sums + r * kRun + c * kEach);
  }
  const int64_t rest = a.n % C, first = a.n - rest;
  for (int64_t c = 0; c < rest; ++c) few_tile<R, 1>(rows, a.weights + (first + c) * a.weights_stride, a.weights_stride, sums + c);
  for (int64_t r = 0; r < R; ++r) store_row(a, r, first, rest, sums + r * kRun);
}

// Many rows: a panel of kPanel channels by kDepth codes, widened; three channels lie side by side, as a tile reads them:
//
//   channel 0, codes 0..15 | channel 1, codes 0..15 | channel 2, codes 0..15 | channel 0, codes 16..31 | ...
//
// Where k is no multiple of kStep, the last step of the last panel takes the last kStep codes of a row again, and the weights of those
// that were taken already are zero there.
constexpr int64_t kTileRows = 4, kTileChannels = 3;
constexpr int64_t kPanel = 24, kDepth = 40 * kStep;  // 30 KiB: with four rows' codes inside the first-level cache
constexpr int64_t kRowBlock = 128;
static_assert(kPanel % kTileChannels == 0 && kDepth * 16256 * 127 < (int64_t{1} << 31));

struct Panel {
  alignas(64) int16_t weights[kPanel * kDepth];
  int64_t first, steps, last;  // code of the first step; number of steps; code of the last step
};

ZU_TARGET_AVX2 void widen_panel(const Args& a, int64_t channel, int64_t channels, int64_t first, Panel& p) {
  p.first = first;
  p.steps = std::min(kDepth, (a.k - first + kStep - 1) / kStep * kStep) / kStep;
  p.last = std::min(first + (p.steps - 1) * kStep, a.k - kStep);
  const int64_t again = first + (p.steps - 1) * kStep - p.last;
  for (int64_t c = 0; c < kPanel; ++c) {
    int16_t* to = p.weights + c / kTileChannels * kTileChannels * p.steps * kStep + c % kTileChannels * kStep;
    const int8_t* from = a.weights + (channel + c) * a.weights_stride;
    for (int64_t i = 0; i < p.steps; ++i) {
      const int64_t at = i + 1 < p.steps ? first + i * kStep : p.last;
      const __m256i w = c < channels ? load_weights(from + at) : _mm256_setzero_si256();
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + i * kTileChannels * kStep), w);
    }
    std::fill_n(to + (p.steps - 1) * kTileChannels * kStep, again, int16_t{0});
  }
}

// R rows from `codes` on by one tile's channels, over a panel's depth: 4 int32 sums a row, the last of them without meaning.
template <int R>
ZU_TARGET_AVX2 inline void tile(const int16_t* codes, int64_t stride, const int16_t* weights, const Panel& p, __m128i* sums) {
  __m256i acc[R][kTileChannels];
  ZU_UNROLL for (int r = 0; r < R; ++r) ZU_UNROLL for (int c = 0; c < kTileChannels; ++c) acc[r][c] = _mm256_setzero_si256();
  const int16_t* x = codes + p.first;
  for (int64_t i = 0; i < p.steps; ++i, x += kStep, weights += kTileChannels * kStep) {
    if (i + 1 == p.steps) x = codes + p.last;
    ZU_UNROLL for (int r = 0; r < R; ++r) {
      const __m256i row = load_codes(x + r * stride);
      ZU_UNROLL for (int c = 0; c < kTileChannels; ++c)
        acc[r][c] = _mm256_add_epi32(acc[r][c], _mm256_madd_epi16(row, load_codes(weights + c * kStep)));
    }
  }
  ZU_UNROLL for (int r = 0; r < R; ++r) {
    const __m256i sum = _mm256_hadd_epi32(_mm256_hadd_epi32(acc[r][0], acc[r][1]), _mm256_hadd_epi32(acc[r][2], acc[r][2]));
    sums[r] = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  }
}

// R rows by a whole panel. sums: R rows of kPanel and one more place; what they hold is kept unless the panel is the first of its depth.
template <int R>
ZU_TARGET_AVX2 void panel(const int16_t* codes, int64_t stride, const Panel& p, double* sums) {
  for (int64_t c = 0; c < kPanel; c += kTileChannels) {
    __m128i part[R];
    tile<R>(codes, stride, p.weights + c * p.steps * kStep, p, part);
    ZU_UNROLL for (int r = 0; r < R; ++r) {
      double* to = sums + r * kPanel + c;
      const __m256d whole = _mm256_cvtepi32_pd(part[r]);
      const __m256d sum = p.first == 0 ? whole : _mm256_add_pd(whole, _mm256_loadu_pd(to));
      _mm_storeu_pd(to, _mm256_castpd256_pd128(sum));
      _mm_store_sd(to + 2, _mm256_extractf128_pd(sum, 1));
    }
  }
}

void many_rows(const Args& a) {
  Panel p;
  double sums[kRowBlock * kPanel + 1];
  for (int64_t first = 0; first < a.rows; first += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, a.rows - first);
    const int16_t* codes = a.codes + first * a.codes_stride;
    for (int64_t channel = 0; channel < a.n; channel += kPanel) {
      const int64_t channels = std::min(kPanel, a.n - channel);
      for (int64_t k = 0; k < a.k; k += kDepth) {
        widen_panel(a, channel, channels, k, p);
        for (int64_t r = 0; r < rows; r += kTileRows) {
          const int64_t count = std::min(kTileRows, rows - r);
          const auto run = count == 1 ? panel<1> : count == 2 ? panel<2> : count == 3 ? panel<3> : panel<4>;
          run(codes + r * a.codes_stride, a.codes_stride, p, sums + r * kPanel);
        }
      }
      for (int64_t r = 0; r < rows; ++r) store_row(a, first + r, channel, channels, sums + r * kPanel);
    }
  }
}

}  // namespace

void avx2(const Args& a) {
  if (a.k < kStep) return reference(a);
  switch (a.rows) {
    case 1: return few_rows<1, 4>(a);
    case 2: return few_rows<2, 4>(a);
    case 3: return few_rows<3, 2>(a);
    case 4: return few_rows<4, 2>(a);
    default: return many_rows(a);
  }
}

}  // namespace zeroulp::ops::linear_s8
#endif
