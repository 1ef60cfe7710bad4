#include "quant/hessian.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "num/bf16.h"
#include "num/bits.h"
#include "num/calibration.h"

namespace zeroulp::quant {
namespace {

constexpr int64_t kRowsAtATime = 256;

// Calls use(first, rows, values) for all rows in pieces, on all threads.
template <class Use>
void for_pieces(const InputRows& x, ThreadPool& pool, const Use& use) {
  constexpr int64_t kPiece = 32;
  pool.parallel_for(x.rows, kPiece, [&](int64_t begin, int64_t end, int worker) {
    std::vector<float> values(static_cast<size_t>(kPiece * x.k));
    for (int64_t first = begin; first < end; first += kPiece) {
      const int64_t rows = std::min(kPiece, end - first);
      x.read(first, rows, values.data());
      use(first, rows, values.data(), worker);
    }
  });
}

// All rows in fixed point, [rows, k].
std::vector<int16_t> fixed_points(const InputRows& x, const std::vector<int>& exponents, ThreadPool& pool) {
  std::vector<int16_t> out(static_cast<size_t>(x.rows * x.k));
  for_pieces(x, pool, [&](int64_t first, int64_t rows, const float* values, int) {
    int16_t* to = out.data() + first * x.k;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < x.k; ++j) *to++ = num::fixed_point(*values++, exponents[static_cast<size_t>(j)]);
  });
  return out;
}

// Part of the rows as integers in panels of channels in their order.
void pack(const std::vector<int16_t>& codes, int64_t k, int64_t first, Panels& panels, const std::vector<int32_t>& order, ThreadPool& pool) {
  pool.parallel_for(panels.count(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin * kPanel; p < std::min(end * kPanel, k); ++p) {
      const int16_t* from = codes.data() + first * k + order[static_cast<size_t>(p)];
      for (int64_t t = 0; t < panels.depth(); ++t, from += k) panels.at(t, p) = *from;
    }
  });
}

// Second moments in units of 2^(-2 * exponent): exact.
std::vector<int64_t> energies(const std::vector<int16_t>& codes, int64_t k, ThreadPool& pool) {
  std::vector<int64_t> out(static_cast<size_t>(k));
  pool.parallel_for(k, kPanel, [&](int64_t begin, int64_t end, int) {
    for (size_t at = 0; at < codes.size(); at += static_cast<size_t>(k))
      for (auto j = static_cast<size_t>(begin); j < static_cast<size_t>(end); ++j) out[j] += int64_t{codes[at + j]} * codes[at + j];
  });
  return out;
}

std::vector<int32_t> by_energy(const std::vector<int64_t>& energy, const std::vector<int>& exponents) {
  std::vector<double> real(energy.size());
  for (size_t j = 0; j < energy.size(); ++j) real[j] = std::ldexp(static_cast<double>(energy[j]), -2 * exponents[j]);
  std::vector<int32_t> order(energy.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return real[static_cast<size_t>(a)] < real[static_cast<size_t>(b)]; });
  return order;
}

// Integers to real values: exact, 53 bits times a power of two.
void unscale(Hessian& h, const std::vector<int>& exponents, ThreadPool& pool) {
  const auto power = [&](int64_t p) { return num::pow2_double(-exponents[static_cast<size_t>(h.order[static_cast<size_t>(p)])]); };
  pool.parallel_for(h.matrix.n(), kPanel, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j <= i; ++j) h.matrix.row(i)[j] *= power(i) * power(j);
  });
}

}  // namespace

InputRows input_rows(std::span<const uint16_t> bf16, int64_t k) {
  return {static_cast<int64_t>(bf16.size()) / k, k, [bf16, k](int64_t first, int64_t rows, float* out) {
            const uint16_t* from = bf16.data() + first * k;
            for (int64_t i = 0; i < rows * k; ++i) out[i] = num::bf16_to_float(from[i]);
          }};
}

std::vector<float> channel_maxima(const InputRows& x, ThreadPool& pool) {
  const auto k = static_cast<size_t>(x.k);
  std::vector<std::vector<float>> parts(static_cast<size_t>(pool.size()), std::vector<float>(k));
  for_pieces(x, pool, [&](int64_t, int64_t rows, const float* values, int worker) {
    float* part = parts[static_cast<size_t>(worker)].data();
    for (int64_t r = 0; r < rows; ++r)
      for (size_t j = 0; j < k; ++j) part[j] = std::max(part[j], std::fabs(*values++));
  });
  std::vector<float> out(k);
  for (const auto& part : parts)
    for (size_t j = 0; j < k; ++j) out[j] = std::max(out[j], part[j]);
  return out;
}

std::vector<int> fixed_point_exponents(std::span<const float> maxima) {
  std::vector<int> out;
  for (const float a : maxima) {
    const int exponent = std::max(1, static_cast<int>(num::bits_of(a) >> 23)) - 127;  // a < 2^(exponent + 1)
    out.push_back(a == 0 ? 0 : num::kFixedBits - 1 - exponent);
  }
  return out;
}

Result<Hessian> hessian_of(const InputRows& x, ThreadPool& pool) {
  if (x.rows > kMaxHessianRows)
    return usage_error(fmt::format("{} calibration tokens; the exact sums of second moments hold {}", x.rows, kMaxHessianRows));
  const std::vector<int> exponents = fixed_point_exponents(channel_maxima(x, pool));
  const std::vector<int16_t> codes = fixed_points(x, exponents, pool);
  Hessian h{by_energy(energies(codes, x.k, pool), exponents), LowerMatrix(x.k)};
  for (int64_t first = 0; first < x.rows; first += kRowsAtATime) {
    Panels panels(std::min(kRowsAtATime, x.rows - first), x.k);
    pack(codes, x.k, first, panels, h.order, pool);
    symmetric_update(pool, h.matrix, 0, panels, Sign::kPlus);
  }
  unscale(h, exponents, pool);
  return h;
}

}  // namespace zeroulp::quant
