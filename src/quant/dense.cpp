#include "quant/dense.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace zeroulp::quant {
namespace {

constexpr int64_t kBlock = 128;  // columns that the factorisation finishes at a time

// `Lanes` doubles that compile to one register of the instruction set at hand.
template <int Lanes>
struct Vector {
  typedef double Type __attribute__((vector_size(Lanes * 8)));
  static ZU_INLINE inline Type load(const double* p) {
    Type v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
};

// Four rows by two registers of the tile at a time.
template <int Lanes>
ZU_INLINE inline void product_tile_with(const double* a, const double* b, int64_t depth, double* tile) {
  using V = Vector<Lanes>;
  constexpr int kColumns = std::min<int>(2 * Lanes, kPanel);
  for (int r = 0; r < kPanel; r += 4) {
    for (int c = 0; c < kPanel; c += kColumns) {
      typename V::Type sum[4][2] = {};
      const double *x = a + r, *y = b + c;
      for (int64_t t = 0; t < depth; ++t, x += kPanel, y += kPanel) {
        const auto y0 = V::load(y), y1 = V::load(y + Lanes);
        sum[0][0] += x[0] * y0, sum[0][1] += x[0] * y1;
        sum[1][0] += x[1] * y0, sum[1][1] += x[1] * y1;
        sum[2][0] += x[2] * y0, sum[2][1] += x[2] * y1;
        sum[3][0] += x[3] * y0, sum[3][1] += x[3] * y1;
      }
      for (int i = 0; i < 4; ++i) std::memcpy(tile + (r + i) * kPanel + c, sum[i], sizeof sum[i]);
    }
  }
}

#if defined(__x86_64__)
ZU_TARGET_AVX2 void product_tile_avx2(const double* a, const double* b, int64_t depth, double* tile) {
  product_tile_with<4>(a, b, depth, tile);
}
ZU_TARGET_AVX512 void product_tile_avx512(const double* a, const double* b, int64_t depth, double* tile) {
  product_tile_with<8>(a, b, depth, tile);
}
#endif
void product_tile_plain(const double* a, const double* b, int64_t depth, double* tile) { product_tile_with<2>(a, b, depth, tile); }

// Rows [begin, end) of the columns [first, first + width) become L[i][c] = (m[i][c] - L[i][k] L[c][k], one k < c after another) / L[c][c].
// `transposed` holds the diagonal block by columns.
void solve_rows(LowerMatrix& m, int64_t first, int64_t width, const std::vector<double>& transposed, int64_t begin, int64_t end) {
  engine::run_widest([&]() ZU_INLINE {
    for (int64_t i = begin; i < end; ++i) {
      double* row = m.row(i) + first;
      for (int64_t c = 0; c < width; ++c) {
        const double* column = transposed.data() + c * kBlock;
        const double value = row[c] / column[c];
        row[c] = value;
        for (int64_t k = c + 1; k < width; ++k) row[k] -= value * column[k];
      }
    }
  });
}

// The diagonal block, column by column; `transposed` receives it by columns.
bool factor_diagonal(LowerMatrix& m, int64_t first, int64_t width, std::vector<double>& transposed) {
  for (int64_t c = 0; c < width; ++c) {
    double* column = transposed.data() + c * kBlock;
    const double pivot = m.row(first + c)[first + c];
    if (!(pivot > 0)) return false;
    column[c] = std::sqrt(pivot);
    m.row(first + c)[first + c] = column[c];
    for (int64_t r = c + 1; r < width; ++r) column[r] = m.row(first + r)[first + c] /= column[c];
    for (int64_t r = c + 1; r < width; ++r) {
      double* row = m.row(first + r) + first;
      for (int64_t k = c + 1; k <= r; ++k) row[k] -= column[r] * column[k];
    }
  }
  return true;
}

}  // namespace

Panels::Panels(int64_t depth, int64_t n) : depth_(depth), n_(n), data_(static_cast<size_t>(count() * depth * kPanel)) {}

LowerMatrix::LowerMatrix(int64_t n)
    : n_(n), stride_((n + kPanel - 1) / kPanel * kPanel), data_(static_cast<size_t>(n_ * stride_)) {}

void product_tile(const double* a, const double* b, int64_t depth, double* tile, engine::Width width) {
#if defined(__x86_64__)
  switch (width) {
    case engine::Width::kAvx512: return product_tile_avx512(a, b, depth, tile);
    case engine::Width::kAvx2: return product_tile_avx2(a, b, depth, tile);
    case engine::Width::kPlain: break;
  }
#else
  (void)width;
#endif
  product_tile_plain(a, b, depth, tile);
}

void symmetric_update(ThreadPool& pool, LowerMatrix& m, int64_t first, const Panels& x, Sign sign) {
  ZU_CHECK(first % kPanel == 0 && x.n() == m.n() - first);
  const auto update_panel = [&](int64_t p) {
    double tile[kPanel * kPanel];
    const int64_t rows = std::min(kPanel, x.n() - p * kPanel);
    for (int64_t q = 0; q <= p; ++q) {
      product_tile(x.panel(p), x.panel(q), x.depth(), tile);
      for (int64_t r = 0; r < rows; ++r) {
        double* to = m.row(first + p * kPanel + r) + first + q * kPanel;
        const double* from = tile + r * kPanel;
        for (int c = 0; c < kPanel; ++c) to[c] = sign == Sign::kPlus ? to[c] + from[c] : to[c] - from[c];
      }
    }
  };
  // Panel p has p + 1 tiles: the p-th and the p-th from the end together are equal work.
  const int64_t count = x.count();
  pool.parallel_for((count + 1) / 2, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      update_panel(p);
      if (p != count - 1 - p) update_panel(count - 1 - p);
    }
  });
}

bool cholesky(ThreadPool& pool, LowerMatrix& m) {
  std::vector<double> transposed(kBlock * kBlock);
  for (int64_t first = 0; first < m.n(); first += kBlock) {
    const int64_t width = std::min(kBlock, m.n() - first), next = first + width, left = m.n() - next;
    if (!factor_diagonal(m, first, width, transposed)) return false;
    if (left == 0) break;
    Panels x(width, left);
    pool.parallel_for(left, kPanel, [&](int64_t begin, int64_t end, int) {
      solve_rows(m, first, width, transposed, next + begin, next + end);
      for (int64_t i = begin; i < end; ++i)
        for (int64_t k = 0; k < width; ++k) x.at(k, i) = m.row(next + i)[first + k];
    });
    symmetric_update(pool, m, next, x, Sign::kMinus);
  }
  return true;
}

}  // namespace zeroulp::quant
