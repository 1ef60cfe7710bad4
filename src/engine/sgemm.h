// Matrix products in fp32 for the float reference path, without a vendor's library: y[i, j] = sum over k of x[i, k] * w[j, k].
//
// Every element has one order of summation: k is cut into blocks of 256; inside a block one fma after another from zero, k ascending;
// the blocks' sums are added in ascending order. So a result depends on its own row and column alone: not on the number of rows, of
// threads, or on the instruction set (the AVX2, AVX-512 and plain loops give the same bits).
#pragma once

#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "engine/widest.h"

namespace zeroulp::engine {

inline constexpr int64_t kPanelColumns = 16;  // columns (j) that lie side by side
inline constexpr int64_t kTileRows = 12;      // rows (i) that lie side by side in packed x
inline constexpr int64_t kBlockK = 256;

// The right-hand side in panels: panel p holds columns [16 p, 16 p + 16), element (k, j) at p * panel_stride + 16 k + j % 16. Exactly one
// of the two pointers is set.
struct Panels {
  const uint16_t* bf16 = nullptr;
  const float* f32 = nullptr;
  int64_t panel_stride = 0;
  int64_t n = 0, k = 0;
};

// A matrix [n, k] in panels, kept as BF16 when every value is one.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(int64_t n, int64_t k, bool as_bf16);

  // values: [rows, k], row-major. A matrix kept as BF16 takes values that are.
  void set_rows(int64_t begin, int64_t rows, const float* values);
  void row(int64_t j, float* out) const;  // out: [k]

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  Panels panels() const;

 private:
  int64_t n_ = 0, k_ = 0;
  std::vector<uint16_t> bf16_;
  std::vector<float> f32_;
};

// The left-hand side, packed once and used against any number of panels.
class PackedRows {
 public:
  void pack(const float* x, int64_t rows, int64_t k, int64_t stride);
  void pack(ThreadPool& pool, const float* x, int64_t rows, int64_t k, int64_t stride);

  int64_t rows() const { return rows_; }
  int64_t k() const { return k_; }
  int64_t groups() const { return (rows_ + kTileRows - 1) / kTileRows; }
  // [k of this block][12]
  const float* group(int64_t block, int64_t g) const;

 private:
  void resize(int64_t rows, int64_t k);
  void pack_groups(const float* x, int64_t stride, int64_t begin, int64_t end);

  int64_t rows_ = 0, k_ = 0;
  std::vector<float> data_;
};

// One thread: all of x against panels [first_panel, last_panel) of w. y: [rows, n], row i at y + i * y_stride.
void sgemm(const PackedRows& x, const Panels& w, int64_t first_panel, int64_t last_panel, float* y, int64_t y_stride,
           Width width = widest());
// The whole product, spread over the pool.
void sgemm(ThreadPool& pool, const PackedRows& x, const Panels& w, float* y, int64_t y_stride);

}  // namespace zeroulp::engine
