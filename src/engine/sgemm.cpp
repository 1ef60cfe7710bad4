#include "engine/sgemm.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/widest.h"
#include "num/bf16.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zeroulp::engine {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A tile of y: up to 12 rows by 32 columns (two panels) over one block of k.
struct Tile {
  const float* x;         // [k][12]
  const float *w0, *w1;   // [k][16] each
  int64_t k;
  float* y;               // [12][32]
};
using TileFn = void (*)(const Tile&);

template <int R>
void tile_plain(const Tile& t) {
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < 32; ++j) {
      const float* w = j < 16 ? t.w0 + j : t.w1 + j - 16;
      float sum = 0;
      for (int64_t k = 0; k < t.k; ++k) sum = std::fma(t.x[k * kTileRows + r], w[k * kPanelColumns], sum);
      t.y[r * 32 + j] = sum;
    }
  }
}

#if defined(__x86_64__)
// Six rows at a time against one panel: 12 accumulators, as 16 registers allow.
template <int R>
ZU_TARGET_AVX2 inline void half_tile_avx2(const float* x, const float* w, int64_t k_count, float* y) {
  __m256 sum[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  for (int64_t k = 0; k < k_count; ++k) {
    const __m256 b0 = _mm256_loadu_ps(w + k * kPanelColumns), b1 = _mm256_loadu_ps(w + k * kPanelColumns + 8);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m256 a = _mm256_broadcast_ss(x + k * kTileRows + r);
      sum[r][0] = _mm256_fmadd_ps(a, b0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(a, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    _mm256_storeu_ps(y + r * 32, sum[r][0]);
    _mm256_storeu_ps(y + r * 32 + 8, sum[r][1]);
  }
}

template <int R>
ZU_TARGET_AVX2 void tile_avx2(const Tile& t) {
  constexpr int kTop = std::min(R, 6);
  half_tile_avx2<kTop>(t.x, t.w0, t.k, t.y);
  half_tile_avx2<kTop>(t.x, t.w1, t.k, t.y + 16);
  if constexpr (R > 6) {
    half_tile_avx2<R - 6>(t.x + 6, t.w0, t.k, t.y + 6 * 32);
    half_tile_avx2<R - 6>(t.x + 6, t.w1, t.k, t.y + 6 * 32 + 16);
  }
}

template <int R>
ZU_TARGET_AVX512 void tile_avx512(const Tile& t) {
  __m512 sum[R][2];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
  for (int64_t k = 0; k < t.k; ++k) {
    const __m512 b0 = _mm512_loadu_ps(t.w0 + k * kPanelColumns), b1 = _mm512_loadu_ps(t.w1 + k * kPanelColumns);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const __m512 a = _mm512_set1_ps(t.x[k * kTileRows + r]);
      sum[r][0] = _mm512_fmadd_ps(a, b0, sum[r][0]);
      sum[r][1] = _mm512_fmadd_ps(a, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    _mm512_storeu_ps(t.y + r * 32, sum[r][0]);
    _mm512_storeu_ps(t.y + r * 32 + 16, sum[r][1]);
  }
}
#endif

// By the number of rows that matter: 1, up to 4, up to 8, up to 12.
struct Tiles {
  TileFn one, four, eight, twelve;
  TileFn of(int64_t rows) const { return rows <= 1 ? one : rows <= 4 ? four : rows <= 8 ? eight : twelve; }
};

Tiles tiles(Width width) {
#if defined(__x86_64__)
  switch (width) {
    case Width::kAvx512: return {tile_avx512<1>, tile_avx512<4>, tile_avx512<8>, tile_avx512<12>};
    case Width::kAvx2: return {tile_avx2<1>, tile_avx2<4>, tile_avx2<8>, tile_avx2<12>};
    case Width::kPlain: break;
  }
#else
  (void)width;
#endif
  return {tile_plain<1>, tile_plain<4>, tile_plain<8>, tile_plain<12>};
}

// One block of one panel as fp32: where it lies, or converted into `space`.
const float* panel_block(const Panels& w, int64_t panel, int64_t first_k, int64_t k_count, float* space) {
  const int64_t at = panel * w.panel_stride + first_k * kPanelColumns;
  if (w.f32 != nullptr) return w.f32 + at;
  const uint16_t* from = w.bf16 + at;
  run_widest([&]() ZU_INLINE {
    for (int64_t i = 0; i < k_count * kPanelColumns; ++i) space[i] = num::bf16_to_float(from[i]);
  });
  return space;
}

void store(const float* tile, int64_t rows, int64_t columns, bool add, float* y, int64_t y_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    float* to = y + r * y_stride;
    const float* from = tile + r * 32;
    if (add) {
      for (int64_t j = 0; j < columns; ++j) to[j] += from[j];
    } else {
      for (int64_t j = 0; j < columns; ++j) to[j] = from[j];
    }
  }
}

}  // namespace

PackedMatrix::PackedMatrix(int64_t n, int64_t k, bool as_bf16) : n_(n), k_(k) {
  const auto size = static_cast<size_t>(ceil_div(n, kPanelColumns) * kPanelColumns * k);
  if (as_bf16) {
    bf16_.resize(size);
  } else {
    f32_.resize(size);
  }
}

void PackedMatrix::set_rows(int64_t begin, int64_t rows, const float* values) {
  ZU_CHECK(begin >= 0 && begin + rows <= n_);
  for (int64_t j = begin; j < begin + rows; ++j) {
    const int64_t at = j / kPanelColumns * kPanelColumns * k_ + j % kPanelColumns;
    const float* from = values + (j - begin) * k_;
    if (!bf16_.empty()) {
      for (int64_t k = 0; k < k_; ++k) bf16_[static_cast<size_t>(at + k * kPanelColumns)] = num::float_to_bf16(from[k]);
    } else {
      for (int64_t k = 0; k < k_; ++k) f32_[static_cast<size_t>(at + k * kPanelColumns)] = from[k];
    }
  }
}

void PackedMatrix::row(int64_t j, float* out) const {
  ZU_CHECK(j >= 0 && j < n_);
  const int64_t at = j / kPanelColumns * kPanelColumns * k_ + j % kPanelColumns;
  for (int64_t k = 0; k < k_; ++k) {
    const auto i = static_cast<size_t>(at + k * kPanelColumns);
    out[k] = bf16_.empty() ? f32_[i] : num::bf16_to_float(bf16_[i]);
  }
}

Panels PackedMatrix::panels() const {
  return {bf16_.empty() ? nullptr : bf16_.data(), bf16_.empty() ? f32_.data() : nullptr, kPanelColumns * k_, n_, k_};
}

void PackedRows::resize(int64_t rows, int64_t k) {
  rows_ = rows;
  k_ = k;
  data_.resize(static_cast<size_t>(groups() * kTileRows * k));
}

const float* PackedRows::group(int64_t block, int64_t g) const {
  const int64_t first_k = block * kBlockK, k_count = std::min(kBlockK, k_ - first_k);
  return data_.data() + (groups() * first_k + g * k_count) * kTileRows;
}

void PackedRows::pack_groups(const float* x, int64_t stride, int64_t begin, int64_t end) {
  for (int64_t g = begin; g < end; ++g) {
    const int64_t rows = std::min(kTileRows, rows_ - g * kTileRows);
    for (int64_t block = 0; block * kBlockK < k_; ++block) {
      const int64_t first_k = block * kBlockK, k_count = std::min(kBlockK, k_ - first_k);
      float* to = const_cast<float*>(group(block, g));
      const float* from = x + g * kTileRows * stride + first_k;
      for (int64_t r = 0; r < kTileRows; ++r)
        for (int64_t k = 0; k < k_count; ++k) to[k * kTileRows + r] = r < rows ? from[r * stride + k] : 0.0f;
    }
  }
}

void PackedRows::pack(const float* x, int64_t rows, int64_t k, int64_t stride) {
  resize(rows, k);
  pack_groups(x, stride, 0, groups());
}

void PackedRows::pack(ThreadPool& pool, const float* x, int64_t rows, int64_t k, int64_t stride) {
  resize(rows, k);
  pool.parallel_for(groups(), 1, [&](int64_t begin, int64_t end, int) { pack_groups(x, stride, begin, end); });
}

void sgemm(const PackedRows& x, const Panels& w, int64_t first_panel, int64_t last_panel, float* y, int64_t y_stride,
           Width width) {
  ZU_CHECK(x.k() == w.k);
  const Tiles run = tiles(width);
  alignas(64) float columns[2][kBlockK * kPanelColumns];
  alignas(64) float tile[kTileRows * 32];
  for (int64_t block = 0; block * kBlockK < w.k; ++block) {
    const int64_t first_k = block * kBlockK, k_count = std::min(kBlockK, w.k - first_k);
    for (int64_t p = first_panel; p < last_panel; p += 2) {
      const float* w0 = panel_block(w, p, first_k, k_count, columns[0]);
      // A panel without a neighbour is computed twice and stored once.
      const float* w1 = p + 1 < last_panel ? panel_block(w, p + 1, first_k, k_count, columns[1]) : w0;
      const int64_t columns_here = std::min(w.n, std::min(p + 2, last_panel) * kPanelColumns) - p * kPanelColumns;
      for (int64_t g = 0; g < x.groups(); ++g) {
        const int64_t rows = std::min(kTileRows, x.rows() - g * kTileRows);
        run.of(rows)({x.group(block, g), w0, w1, k_count, tile});
        float* to = y + g * kTileRows * y_stride + p * kPanelColumns;
        run_widest([&]() ZU_INLINE { store(tile, rows, columns_here, block > 0, to, y_stride); });
      }
    }
  }
}

void sgemm(ThreadPool& pool, const PackedRows& x, const Panels& w, float* y, int64_t y_stride) {
  pool.parallel_for(ceil_div(w.n, kPanelColumns), 2,
                    [&](int64_t begin, int64_t end, int) { sgemm(x, w, begin, end, y, y_stride); });
}

}  // namespace zeroulp::engine
