// linear_s8 on AMX tiles (ops/simd_amx.h): products of signed bytes, and both planes of a 15-bit code are such bytes, acc = 128 * hi + lo.
//
//   A tile  16 channels x 64 of k, read in place from the weights' rows: nothing is repacked, whatever the number of rows
//   B tile  64 of k x 16 rows of one plane, packed once a call: [16 quads of k][16 rows][4]
//   C tile  16 channels x 16 rows of sums
//
// Two A tiles by two B tiles (both planes of 16 rows, or 32 rows of 8 bits) fill the eight tile registers.
// Bound: the sum of a plane is below 2^31 to K = 131072 (contract.h), so no addition wraps. Proof: tests/ops/linear_s8_test.cpp.
#include <algorithm>
#include <cstring>

#include "ops/linear_s8/fast.h"
#include "ops/linear_s8/sums_avx512.h"
#include "ops/simd_amx.h"

#if defined(__x86_64__)
namespace zeroulp::ops::linear_s8 {
namespace {

using amx::kDepth;
using amx::kSide;
using amx::kTileBytes;

constexpr int64_t kPanel = 2 * kSide;         // channels
constexpr int64_t kVnniRows = 2;              // up to here vectors read weights as fast as memory gives them
constexpr int64_t kChunkBytes = 1 << 20;      // packed rows that are worked on together: they stay in the second-level cache

// 16 rows of 64 bytes as a B tile.
ZU_TARGET_AMX inline void store_tile(__m512i (&rows)[kSide], int8_t* to) {
  avx512::transpose(rows);
  ZU_UNROLL for (int q = 0; q < kSide; ++q) _mm512_store_si512(to + q * kVector, rows[q]);
}

// B tiles of `count` rows: [pair of tiles][step of k][2]. A pair is 16 rows' planes, or 32 rows of one plane; missing rows are zero.
template <int P>
ZU_TARGET_AMX void pack_rows(const Args& a, int64_t first_row, int64_t count, int8_t* out) {
  constexpr int64_t kPairRows = kPanel / P;
  const int64_t steps = (a.k + kDepth - 1) / kDepth;
  for (int64_t r = 0; r < round_up(count, kPairRows); r += kSide) {
    int8_t* block = out + r / kPairRows * steps * 2 * kTileBytes + r % kPairRows / kSide * kTileBytes;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t left = a.k - step * kDepth;
      const auto first32 = static_cast<__mmask32>(avx512::first_bytes(std::min<int64_t>(left, 32)));
      const auto last32 = static_cast<__mmask32>(avx512::first_bytes(std::clamp<int64_t>(left - 32, 0, 32)));
      __m512i hi[kSide], lo[kSide];
      ZU_UNROLL for (int i = 0; i < kSide; ++i) {
        const bool exists = r + i < count;
        const int16_t* codes = a.codes + (first_row + std::min(r + i, count - 1)) * a.codes_stride + step * kDepth;
        const __m512i q0 = _mm512_maskz_loadu_epi16(exists ? first32 : 0, codes), q1 = _mm512_maskz_loadu_epi16(exists ? last32 : 0, codes + 32);
        if (P == 1)
          hi[i] = avx512::low_bytes(q0, q1);
        else
          avx512::split_planes(q0, q1, hi[i], lo[i]);
      }
      store_tile(hi, block + step * 2 * kTileBytes);
      if (P == 2) store_tile(lo, block + step * 2 * kTileBytes + kTileBytes);
    }
  }
}

// 32 channels of weights, or fewer, that can be read as whole tiles.
struct Weights {
  const int8_t* first;   // channels 0 to 15
  const int8_t* second;  // channels 16 to 31; the first again when there are none
  int64_t stride;
};

// In place where whole tiles exist, otherwise copied with zeros behind.
Weights make_weights(const Args& a, int64_t channel, int64_t channels, int8_t* memory) {
  const int64_t padded = round_up(a.k, kDepth);
  const bool second = channels > kSide;
  const int8_t* at = a.weights + channel * a.weights_stride;
  if (channels % kSide == 0 && a.k == padded) return {at, second ? at + kSide * a.weights_stride : at, a.weights_stride};
  std::memset(memory, 0, static_cast<size_t>(kPanel * padded));
  for (int64_t c = 0; c < channels; ++c) std::memcpy(memory + c * padded, at + c * a.weights_stride, static_cast<size_t>(a.k));
  return {memory, second ? memory + kSide * padded : memory, padded};
}

// sums: [2 A tiles][2 B tiles][16 channels][16 rows]. With `next`, the same place of the next panel is fetched meanwhile.
template <bool kFetch>
ZU_TARGET_AMX void multiply(const Weights& w, const int8_t* rows, int64_t steps, const int8_t* next, int32_t* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(6, rows + step * 2 * kTileBytes, kVector);
    _tile_loadd(4, w.first + step * kDepth, w.stride);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(5, w.second + step * kDepth, w.stride);
    _tile_dpbssd(2, 5, 6);
    _tile_loadd(7, rows + step * 2 * kTileBytes + kTileBytes, kVector);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(3, 5, 7);
    if (kFetch)
      for (int64_t c = 0; c < kPanel; ++c) _mm_prefetch(next + c * w.stride + step * kDepth, _MM_HINT_T1);
  }
  _tile_stored(0, sums, kVector);
  _tile_stored(1, sums + kSide * kSide, kVector);
  _tile_stored(2, sums + 2 * kSide * kSide, kVector);
  _tile_stored(3, sums + 3 * kSide * kSide, kVector);
}

// One B tile's 16 rows by 32 channels through the epilogue. hi, lo: [2][.][16 channels][16 rows] as multiply() leaves them.
template <int P>
ZU_TARGET_AMX void store_rows(const Args& a, int64_t row, int64_t rows, int64_t channel, int64_t channels, const int32_t* hi,
                              const int32_t* lo) {
  const __m512 sa = _mm512_maskz_loadu_ps(avx512::first(rows), a.row_scales + row);
  const auto value = [&](int64_t c) ZU_TARGET_AMX {
    const int64_t at = c / kSide * 2 * kSide * kSide + c % kSide * kSide, exists = channel + std::min(c, channels - 1);
    const __m512 f = i2f_sums<P>(a.k, _mm512_load_si512(hi + at), _mm512_load_si512(lo + at));
    const __m512 scaled = _mm512_mul_ps(_mm512_set1_ps(a.channel_scales[exists]), f);
    return a.bias ? _mm512_fmadd_ps(sa, scaled, _mm512_set1_ps(a.bias[exists])) : _mm512_mul_ps(sa, scaled);
  };
  __m512i v[kSide];
  if (a.output == Output::kBf16) {
    ZU_UNROLL for (int c = 0; c < kSide; ++c) {  // channels 2c and 2c + 1 share a dword
      const __m512i even = avx512::to_bf16_dwords(value(2 * c)), odd = avx512::to_bf16_dwords(value(2 * c + 1));
      v[c] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    }
    avx512::transpose(v);
    uint16_t* y = static_cast<uint16_t*>(a.y) + row * a.y_stride + channel;
    const auto lanes = static_cast<__mmask32>(avx512::first_bytes(channels));
    ZU_UNROLL for (int r = 0; r < kSide; ++r) {
      if (r < rows) _mm512_mask_storeu_epi16(y + r * a.y_stride, lanes, v[r]);
    }
    return;
  }
  for (int64_t first = 0; first < channels; first += kSide) {
    ZU_UNROLL for (int c = 0; c < kSide; ++c) v[c] = _mm512_castps_si512(value(first + c));
    avx512::transpose(v);
    float* y = static_cast<float*>(a.y) + row * a.y_stride + channel + first;
    ZU_UNROLL for (int r = 0; r < kSide; ++r) {
      if (r < rows) _mm512_mask_storeu_ps(y + r * a.y_stride, avx512::first(channels - first), _mm512_castsi512_ps(v[r]));
    }
  }
}

template <int P>
void store_partial(const Args& a, int64_t row, int64_t rows, int64_t channel, int64_t channels, const int32_t* hi, const int32_t* lo) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = c / kSide * 2 * kSide * kSide + c % kSide * kSide + r;
      store(a, row + r, channel + c, P == 1 ? int64_t{hi[at]} : 128 * int64_t{hi[at]} + lo[at]);
    }
}

int64_t pair_bytes_of(int64_t k) { return round_up(k, kDepth) / kDepth * 2 * kTileBytes; }

// Pairs of B tiles that are worked on together.
int64_t chunk_pairs(int64_t rows, int64_t k, int64_t planes) {
  const int64_t all = (rows * planes + kPanel - 1) / kPanel;
  return std::min(all, std::max<int64_t>(1, kChunkBytes / pair_bytes_of(k)));
}

int64_t scratch_bytes_of(int64_t rows, int64_t k, int64_t planes) {
  return chunk_pairs(rows, k, planes) * pair_bytes_of(k) + kPanel * round_up(k, kDepth);
}

template <int P>
void run(const Args& a) {
  constexpr int64_t kPairRows = kPanel / P;
  const amx::Tiles tiles;
  const int64_t steps = round_up(a.k, kDepth) / kDepth, pair_bytes = pair_bytes_of(a.k);
  const int64_t chunk = chunk_pairs(a.rows, a.k, P) * kPairRows;
  auto* const packed = reinterpret_cast<int8_t*>(scratch(a, scratch_bytes_of(a.rows, a.k, P)));
  int8_t* const copy = packed + chunk / kPairRows * pair_bytes;
  alignas(64) int32_t sums[4 * kSide * kSide];
  const auto put = [&](auto store_tile, int64_t row, int64_t rows, int64_t channel, int64_t channels) {
    if (P == 2) return store_tile(a, row, rows, channel, channels, sums, sums + kSide * kSide);
    store_tile(a, row, std::min(rows, kSide), channel, channels, sums, sums);
    if (rows > kSide) store_tile(a, row + kSide, rows - kSide, channel, channels, sums + kSide * kSide, sums);
  };
  for (int64_t first = 0; first < a.rows; first += chunk) {
    const int64_t count = std::min(chunk, a.rows - first);
    pack_rows<P>(a, first, count, packed);
    for (int64_t channel = 0; channel < a.n; channel += kPanel) {
      const int64_t channels = std::min(kPanel, a.n - channel);
      const Weights w = make_weights(a, channel, channels, copy);
      const bool fetch = channel + 2 * kPanel <= a.n;
      amx::stores_before_tile_loads();
      for (int64_t r = 0; r < count; r += kPairRows) {
        const auto product = fetch && r == 0 ? multiply<true> : multiply<false>;
        product(w, packed + r / kPairRows * pair_bytes, steps, a.weights + (channel + kPanel) * a.weights_stride, sums);
        const int64_t rows = std::min(kPairRows, count - r);
        if (a.output == Output::kPartial)
          put(store_partial<P>, first + r, rows, channel, channels);
        else
          put(store_rows<P>, first + r, rows, channel, channels);
      }
    }
  }
}

}  // namespace

int64_t amx_int8_scratch_bytes(int64_t rows, int64_t k) { return std::max(scratch_bytes_of(rows, k, 1), scratch_bytes_of(rows, k, 2)); }

void amx_int8(const Args& a) {
  if (a.rows <= kVnniRows) return avx512_vnni(a);
  a.width == 15 ? run<2>(a) : run<1>(a);
}

}  // namespace zeroulp::ops::linear_s8
#endif
