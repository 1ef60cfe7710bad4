#include "quant/gptq.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/check.h"
#include "engine/widest.h"
#include "num/calibration.h"

namespace zeroulp::quant {
namespace {

constexpr int64_t kBlock = 128;  // columns between two passes over what is decided
constexpr double kDamping = 0.01;

void damp(LowerMatrix& m) {
  double sum = 0;
  for (int64_t i = 0; i < m.n(); ++i) sum += m.row(i)[i];
  // Inputs that were zero throughout say nothing: rounding to nearest is then as good as any.
  const double add = sum > 0 ? kDamping * (sum / static_cast<double>(m.n())) : 1.0;
  for (int64_t i = 0; i < m.n(); ++i) m.row(i)[i] += add;
}

// Sixteen output channels side by side over one block of columns: column j, row r at [j * 16 + r].
struct Group {
  int64_t first, rows;
  double* errors;  // d of all columns, [k][16] by place
  double weights[kBlock * kPanel], feedback[kBlock * kPanel];
  double scales[kPanel];
  int8_t codes[kBlock * kPanel];
};

// Channels of the block's columns.
using Columns = std::span<const int32_t>;

void load_group(Group& g, const FloatLinear& weights, const CodedLinear& linear, Columns columns) {
  for (int64_t r = 0; r < kPanel; ++r) {
    const bool real = r < g.rows;
    g.scales[r] = real ? linear.scales[static_cast<size_t>(g.first + r)] : 1.0;
    for (size_t j = 0; j < columns.size(); ++j)
      g.weights[static_cast<int64_t>(j) * kPanel + r] = real ? weights.row(g.first + r)[static_cast<size_t>(columns[j])] : 0.0;
  }
}

void store_codes(const Group& g, CodedLinear& linear, Columns columns) {
  for (int64_t r = 0; r < g.rows; ++r) {
    int8_t* row = linear.codes.data() + (g.first + r) * linear.k;
    for (size_t j = 0; j < columns.size(); ++j) row[columns[j]] = g.codes[static_cast<int64_t>(j) * kPanel + r];
  }
}

// What the decided columns, all those from `end` on, ask of this block's.
void gather_feedback(Group& g, const Panels& below, int64_t end) {
  double tile[kPanel * kPanel];
  for (int64_t p = 0; p < below.count(); ++p) {
    product_tile(below.panel(p), g.errors + end * kPanel, below.depth(), tile);
    std::copy_n(tile, std::min(kPanel, below.n() - p * kPanel) * kPanel, g.feedback + p * kPanel * kPanel);
  }
}

// Decides the columns [begin, end) from last to first.
void decide_block(Group& g, const LowerMatrix& l, int64_t begin, int64_t end) {
  for (int64_t j = end - 1; j >= begin; --j) {
    const double* w = g.weights + (j - begin) * kPanel;
    const double* f = g.feedback + (j - begin) * kPanel;
    double* d = g.errors + j * kPanel;
    for (int64_t r = 0; r < kPanel; ++r) {
      const double q = num::feedback_code(w[r] + f[r], g.scales[r]);
      g.codes[(j - begin) * kPanel + r] = static_cast<int8_t>(q);
      d[r] = w[r] - q * g.scales[r];
    }
    const double* row = l.row(j) + begin;
    engine::run_widest([&]() ZU_INLINE {
      for (int64_t i = 0; i < j - begin; ++i)
        for (int64_t r = 0; r < kPanel; ++r) g.feedback[i * kPanel + r] += d[r] * row[i];
    });
  }
}

}  // namespace

GptqBasis GptqBasis::factor(Hessian hessian, ThreadPool& pool) {
  GptqBasis basis(std::move(hessian));
  LowerMatrix& l = basis.l_;
  damp(l);
  // Damped second moments are positive definite by far more than rounding can take away.
  ZU_CHECK(cholesky(pool, l));
  std::vector<double> diagonal(static_cast<size_t>(l.n()));
  for (int64_t i = 0; i < l.n(); ++i) diagonal[static_cast<size_t>(i)] = l.row(i)[i];
  pool.parallel_for(l.n(), kPanel, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < i; ++j) l.row(i)[j] /= diagonal[static_cast<size_t>(j)];
  });
  return basis;
}

void GptqBasis::round(const FloatLinear& weights, CodedLinear& linear, ThreadPool& pool) const {
  const int64_t n = linear.n, k = linear.k, groups = (n + kPanel - 1) / kPanel;
  ZU_CHECK(k == l_.n());
  linear.codes.resize(static_cast<size_t>(n * k));
  std::vector<double> errors(static_cast<size_t>(groups * k * kPanel));
  for (int64_t end = k, begin; end > 0; end = begin) {
    begin = (end - 1) / kBlock * kBlock;
    const Columns columns(order_.data() + begin, static_cast<size_t>(end - begin));
    Panels below(k - end, end - begin);
    pool.parallel_for(below.depth(), 64, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i)
        for (int64_t j = 0; j < below.n(); ++j) below.at(i, j) = l_.row(end + i)[begin + j];
    });
    pool.parallel_for(groups, 1, [&](int64_t first, int64_t last, int) {
      const auto g = std::make_unique<Group>();
      for (int64_t group = first; group < last; ++group) {
        g->first = group * kPanel, g->rows = std::min(kPanel, n - g->first);
        g->errors = errors.data() + group * k * kPanel;
        load_group(*g, weights, linear, columns);
        gather_feedback(*g, below, end);
        decide_block(*g, l_, begin, end);
        store_codes(*g, linear, columns);
      }
    });
  }
}

double weighted_error(const FloatLinear& weights, const CodedLinear& linear, const Hessian& hessian) {
  double sum = 0;
  std::vector<double> d(static_cast<size_t>(linear.k));
  for (int64_t row = 0; row < linear.n; ++row) {
    for (int64_t p = 0; p < linear.k; ++p) {
      const auto channel = static_cast<size_t>(hessian.order[static_cast<size_t>(p)]);
      d[static_cast<size_t>(p)] = static_cast<double>(weights.row(row)[channel]) -
                                  linear.codes[static_cast<size_t>(row * linear.k) + channel] * static_cast<double>(linear.scales[static_cast<size_t>(row)]);
    }
    for (int64_t i = 0; i < linear.k; ++i) {
      double inner = 0;
      for (int64_t j = 0; j < i; ++j) inner += hessian.matrix.row(i)[j] * d[static_cast<size_t>(j)];
      sum += d[static_cast<size_t>(i)] * (2 * inner + hessian.matrix.row(i)[i] * d[static_cast<size_t>(i)]);
    }
  }
  return sum;
}

}  // namespace zeroulp::quant
