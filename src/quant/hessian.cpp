#include "quant/hessian.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "num/bf16.h"
#include "num/bits.h"
#include "num/round.h"

namespace zeroulp::quant {
namespace {

constexpr int64_t kRowsAtATime = 256;

// x, a part of the rows, as integers in panels of channels in their order.
void pack(std::span<const uint16_t> x, int64_t k, int64_t first, Panels& panels, const std::vector<int32_t>& order,
          const std::vector<int>& exponents, ThreadPool& pool) {
  pool.parallel_for(panels.count(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin * kPanel; p < std::min(end * kPanel, k); ++p) {
      const int32_t channel = order[static_cast<size_t>(p)];
      const uint16_t* from = x.data() + first * k + channel;
      for (int64_t t = 0; t < panels.depth(); ++t, from += k)
        panels.at(t, p) = fixed_point(num::bf16_to_float(*from), exponents[static_cast<size_t>(channel)]);
    }
  });
}

// Second moments in units of 2^(-2 * exponent): exact.
std::vector<int64_t> energies(std::span<const uint16_t> x, int64_t k, const std::vector<int>& exponents, ThreadPool& pool) {
  std::vector<int64_t> out(static_cast<size_t>(k));
  pool.parallel_for(k, kPanel, [&](int64_t begin, int64_t end, int) {
    for (size_t at = 0; at < x.size(); at += static_cast<size_t>(k))
      for (int64_t j = begin; j < end; ++j) {
        const auto c = static_cast<size_t>(j);
        const int64_t code = fixed_point(num::bf16_to_float(x[at + c]), exponents[c]);
        out[c] += code * code;
      }
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

std::vector<uint16_t> channel_maxima(std::span<const uint16_t> x, int64_t k, ThreadPool& pool) {
  std::vector<uint16_t> out(static_cast<size_t>(k));
  pool.parallel_for(k, kPanel, [&](int64_t begin, int64_t end, int) {
    for (size_t at = 0; at < x.size(); at += static_cast<size_t>(k))
      for (auto j = static_cast<size_t>(begin); j < static_cast<size_t>(end); ++j)
        out[j] = std::max<uint16_t>(out[j], x[at + j] & 0x7FFF);
  });
  return out;
}

std::vector<int> fixed_point_exponents(std::span<const uint16_t> maxima) {
  std::vector<int> out;
  for (const uint16_t a : maxima) {
    const int exponent = std::max(1, a >> 7) - 127;  // a < 2^(exponent + 1)
    out.push_back(a == 0 ? 0 : kFixedBits - 1 - exponent);
  }
  return out;
}

int32_t fixed_point(float x, int exponent) { return num::rne(num::ldexp_rn(x, exponent)); }

Result<Hessian> hessian_of(std::span<const uint16_t> x, int64_t k, ThreadPool& pool) {
  const int64_t rows = static_cast<int64_t>(x.size()) / k;
  if (rows > kMaxHessianRows)
    return usage_error(fmt::format("{} calibration tokens; the exact sums of second moments hold {}", rows, kMaxHessianRows));
  const std::vector<int> exponents = fixed_point_exponents(channel_maxima(x, k, pool));
  Hessian h{by_energy(energies(x, k, exponents, pool), exponents), LowerMatrix(k)};
  for (int64_t first = 0; first < rows; first += kRowsAtATime) {
    Panels panels(std::min(kRowsAtATime, rows - first), k);
    pack(x, k, first, panels, h.order, exponents, pool);
    symmetric_update(pool, h.matrix, 0, panels, Sign::kPlus);
  }
  unscale(h, exponents, pool);
  return h;
}

}  // namespace zeroulp::quant
