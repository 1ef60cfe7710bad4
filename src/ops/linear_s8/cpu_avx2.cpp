// linear_s8 on AVX2. vpmaddwd of the 15-bit codes with sign-extended weights: pair sums are exact in int32 (vpmaddubsw would saturate
// at int16), so both activation widths take the same path.
//
// Bound: a 32-bit lane grows by at most 2 * 16256 * 127 a step, 520 steps stay below 2^31; then it is widened to 64 bits.
// Sums become floats through double (exact below 2^53) and one conversion. Proof: tests/ops/linear_s8_test.cpp.
#include "ops/linear_s8/fast.h"
#include "ops/linear_s8/reference.h"
#include "ops/simd_avx2.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int64_t kStep = 16;            // codes to one vpmaddwd
constexpr int64_t kChunk = 520 * kStep;  // codes that a 32-bit lane can take
constexpr int64_t kTileRows = 4;
constexpr int64_t kPanel = 64;  // channels whose sums wait for the epilogue
static_assert((kChunk / kStep) * 2 * 16256 * 127 < (int64_t{1} << 31));

// Up to four rows of codes. `tails` holds each row's last kStep codes with those zeroed that a whole step has already taken, so that a
// row's end needs no load beyond it.
struct Rows {
  const int16_t* codes;
  int64_t stride, k;
  int16_t tails[kTileRows][kStep];
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

// R rows by C channels, weights_stride apart. sums: R rows of kPanel, in each the C sums `apart` apart.
template <int R, int C>
ZU_TARGET_AVX2 void tile(const Rows& rows, const int8_t* weights, int64_t weights_stride, int64_t* sums, int64_t apart = 1) {
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
  ZU_UNROLL for (int r = 0; r < R; ++r) ZU_UNROLL for (int c = 0; c < C; ++c) sums[r * kPanel + c * apart] =
      avx2::sum_lanes_64(wide[r][c]);
}

// R rows by `count` <= kPanel channels, C at a time.
template <int R, int C>
ZU_TARGET_AVX2 void panel(const Rows& rows, const int8_t* weights, int64_t weights_stride, int64_t count, int64_t* sums) {
  int64_t c = 0;
  for (; c + C <= count; c += C) tile<R, C>(rows, weights + c * weights_stride, weights_stride, sums + c);
  for (; c < count; ++c) tile<R, 1>(rows, weights + c * weights_stride, weights_stride, sums + c);
}

// linear_s8::store for `count` channels of one row, eight at a time.
ZU_TARGET_AVX2 void store_row(const Args& a, int64_t row, int64_t channel, int64_t count, const int64_t* sums) {
  int64_t c = 0;
  if (a.output != Output::kPartial) {
    const __m256 sa = _mm256_set1_ps(a.row_scales[row]);
    for (; c + 8 <= count; c += 8) {
      const __m128 f0 = avx2::i2f(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + c)));
      const __m128 f1 = avx2::i2f(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + c + 4)));
      const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(a.channel_scales + channel + c), _mm256_set_m128(f1, f0));
      const __m256 y = a.bias ? _mm256_fmadd_ps(sa, scaled, _mm256_loadu_ps(a.bias + channel + c)) : _mm256_mul_ps(sa, scaled);
      const int64_t at = row * a.y_stride + channel + c;
      if (a.output == Output::kBf16)
        avx2::store_bf16(static_cast<uint16_t*>(a.y) + at, y);
      else
        _mm256_storeu_ps(static_cast<float*>(a.y) + at, y);
    }
  }
  for (; c < count; ++c) store(a, row, channel + c, sums[c]);
}

// R rows by all channels. Weights come from memory here, and hardware follows several places at once better than one: a tile's C channels
// stand at C places of the matrix, each read from front to back.
template <int R, int C>
void few_rows(const Args& a) {
  constexpr int64_t kRun = kPanel / C;
  const Rows rows = make_rows(a, 0, R);
  int64_t sums[R * kPanel];
  const int64_t apart = a.n / C;
  for (int64_t at = 0; at < apart; at += kRun) {
    const int64_t run = std::min(kRun, apart - at);
    for (int64_t i = 0; i < run; ++i)
      tile<R, C>(rows, a.weights + (at + i) * a.weights_stride, apart * a.weights_stride, sums + i, kRun);
    for (int64_t r = 0; r < R; ++r)
      for (int64_t c = 0; c < C; ++c) store_row(a, r, c * apart + at, run, sums + r * kPanel + c * kRun);
  }
  const int64_t rest = a.n % C, first = a.n - rest;
  panel<R, 1>(rows, a.weights + first * a.weights_stride, a.weights_stride, rest, sums);
  for (int64_t r = 0; r < R; ++r) store_row(a, r, first, rest, sums + r * kPanel);
}

void many_rows(const Args& a) {
  for (int64_t channel = 0; channel < a.n; channel += kPanel) {
    const int64_t channels = std::min(kPanel, a.n - channel);
    const int8_t* weights = a.weights + channel * a.weights_stride;
    for (int64_t row = 0; row < a.rows; row += kTileRows) {
      const int64_t count = std::min(kTileRows, a.rows - row);
      const Rows rows = make_rows(a, row, count);
      int64_t sums[kTileRows * kPanel];
      const auto tiles = count == 1   ? panel<1, 4>
                         : count == 2 ? panel<2, 4>
                         : count == 3 ? panel<3, 2>
                                      : panel<4, 2>;
      tiles(rows, weights, a.weights_stride, channels, sums);
      for (int64_t r = 0; r < count; ++r) store_row(a, row + r, channel, channels, sums + r * kPanel);
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
