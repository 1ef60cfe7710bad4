// Dense symmetric matrices in binary64 with one order of operations per element, whatever the threads and the instruction set: products
// and sums are never contracted or regrouped, loops run wide over independent elements only. No vendor's library.
#pragma once

#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "engine/widest.h"

namespace zeroulp::quant {

inline constexpr int64_t kPanel = 16;  // columns that lie side by side in packed form

// A matrix [depth, n] in panels: element (t, j) at (j / 16 * depth + t) * 16 + j % 16. Columns beyond n are zero.
class Panels {
 public:
  Panels(int64_t depth, int64_t n);
  int64_t depth() const { return depth_; }
  int64_t n() const { return n_; }
  int64_t count() const { return (n_ + kPanel - 1) / kPanel; }
  double* panel(int64_t p) { return data_.data() + p * depth_ * kPanel; }
  const double* panel(int64_t p) const { return data_.data() + p * depth_ * kPanel; }
  double& at(int64_t t, int64_t j) { return panel(j / kPanel)[t * kPanel + j % kPanel]; }

 private:
  int64_t depth_, n_;
  std::vector<double> data_;
};

// A square matrix of which the lower triangle counts; rows are padded to whole panels.
class LowerMatrix {
 public:
  explicit LowerMatrix(int64_t n);
  int64_t n() const { return n_; }
  int64_t stride() const { return stride_; }
  double* row(int64_t i) { return data_.data() + i * stride_; }
  const double* row(int64_t i) const { return data_.data() + i * stride_; }

 private:
  int64_t n_, stride_;
  std::vector<double> data_;
};

// tile[16][16] = sum over t ascending of a[t][r] * b[t][c], from zero.
void product_tile(const double* a, const double* b, int64_t depth, double* tile, engine::Width width = engine::widest());

// For first <= j <= i: m[i][j] += (or -=) the sum over t ascending of x(t, i - first) * x(t, j - first). x.n() is m.n() - first, and first a
// multiple of 16.
enum class Sign { kPlus, kMinus };
void symmetric_update(ThreadPool& pool, LowerMatrix& m, int64_t first, const Panels& x, Sign sign);

// m = L L^T in place. False when a pivot is not above zero.
bool cholesky(ThreadPool& pool, LowerMatrix& m);

}  // namespace zeroulp::quant
