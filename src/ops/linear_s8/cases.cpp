#include "ops/linear_s8/cases.h"

#include <fmt/format.h>

#include <cmath>

#include "num/quant.h"
#include "ops/case_inputs.h"

namespace zeroulp::ops::linear_s8 {
namespace {

using namespace conformance;

struct Problem {
  int64_t rows, n, k;
  int width;
  std::vector<int16_t> codes;   // [rows, k + gap]
  std::vector<int8_t> weights;  // [n, k + gap]
  std::vector<float> row_scales, channel_scales, bias = {};
  int64_t gap = 0;
};

int32_t top(int width) { return static_cast<int32_t>(num::quant_top(width)); }

void visit_output(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches, const Problem& p,
                  Output output) {
  visit({kind, name, catches}, [&](Fn* run, Outputs& out) {
    const int64_t stride = p.n + p.gap;
    const auto call = [&](auto& y) {
      run({p.codes.data(), p.k + p.gap, p.row_scales.data(), p.rows, p.k, p.width, p.weights.data(), p.k + p.gap, p.n,
           p.channel_scales.data(), p.bias.empty() ? nullptr : p.bias.data(), output, y.data(), stride});
      out.add("y", y);
    };
    if (output == Output::kBf16) {
      Guarded<uint16_t> y(p.rows * stride);
      call(y);
    } else if (output == Output::kF32) {
      Guarded<float> y(p.rows * stride);
      call(y);
    } else {
      Guarded<int64_t> y(p.rows * stride);
      call(y);
    }
  });
}

void visit_problem(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches, const Problem& p) {
  const std::string sized = fmt::format("{}, {} bits, {} x {} x {}", name, p.width, p.rows, p.n, p.k);
  visit_output(visit, kind, sized + ", bf16", catches, p, Output::kBf16);
  visit_output(visit, kind, sized + ", fp32", catches, p, Output::kF32);
  if (p.bias.empty()) visit_output(visit, kind, sized + ", sums", catches, p, Output::kPartial);
}

// Scales whose exponents and fractions all differ: a neighbour's scale, or another order of the products, shows.
Problem random_problem(num::PhiloxStream& random, int64_t rows, int64_t n, int64_t k, int width, int64_t gap = 0) {
  Problem p{rows, n, k, width, {}, random_codes(random, n * (k + gap)), {}, {}, {}, gap};
  for (int64_t i = 0; i < rows * (k + gap); ++i)
    p.codes.push_back(
        static_cast<int16_t>(static_cast<int32_t>(random.below(2 * static_cast<uint64_t>(top(width)) + 1)) - top(width)));
  for (int64_t i = 0; i < rows; ++i) p.row_scales.push_back(random_scale(random, -16, -6));
  for (int64_t i = 0; i < n; ++i) p.channel_scales.push_back(random_scale(random, -14, -8));
  return p;
}

void add_bias(num::PhiloxStream& random, Problem& p) {
  for (int64_t i = 0; i < p.n; ++i) p.bias.push_back(bell(random, 0.5f));
}

// One channel whose sum is exactly `sum`: full products as often as they fit, then the rest as 127 * c + b.
Problem exact_sum(num::PhiloxStream& random, int64_t sum, int width) {
  const int64_t t = top(width), magnitude = std::abs(sum), full = magnitude / (127 * t), rest = magnitude % (127 * t);
  Problem p = random_problem(random, 3, 17, full + 2, width);
  for (int64_t i = 0; i < p.k; ++i) {
    const int64_t code = i < full ? t : i == full ? rest / 127 : rest % 127;
    for (int64_t row = 0; row < p.rows; ++row)
      p.codes[static_cast<size_t>(row * p.k + i)] = static_cast<int16_t>(row == 1 ? -code : code);
    p.weights[static_cast<size_t>(5 * p.k + i)] = static_cast<int8_t>((i == full + 1 ? 1 : 127) * (sum < 0 ? -1 : 1));
  }
  p.row_scales = {1.0f, 0x1.000002p-3f, 0x1.fffffep5f};
  p.channel_scales[5] = 1.0f;
  return p;
}

// Sums at and around the ties of the conversion to fp32, up to the largest that K admits.
void conversions(const Visit<Fn>& visit) {
  num::PhiloxStream random(110);
  for (const int width : {8, 15}) {
    std::vector<int64_t> sums = {
        0, 1, 257, 259, 515, 517, (1 << 22) - 1, 1 << 22, (1 << 22) + 1, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, (1 << 24) + 3};
    if (width == 8) sums.insert(sums.end(), {2114028030, 2114028029});
    for (int e = 25; e <= (width == 8 ? 30 : 37); e += width == 8 ? 1 : 2)
      for (const int64_t odd : {1, 3})
        for (const int64_t more : {-1, 0, 1}) sums.push_back((int64_t{1} << e) + (odd << (e - 24)) + more);
    for (const int64_t magnitude : sums)
      for (const int64_t sum : {magnitude, -magnitude})
        visit_problem(visit, Kind::kHard, fmt::format("the sum {}", sum),
                      "ties of bf16 away from zero, a fast conversion beyond 2^22, planes joined in fp32, sums in 32 bits",
                      exact_sum(random, sum, width));
  }
}

// Each k alone with a weight of its own: a map of tails and permutations.
void single_hot(const Visit<Fn>& visit) {
  num::PhiloxStream random(111);
  for (const int width : {8, 15}) {
    Problem p = random_problem(random, 150, 19, 150, width);
    for (int64_t row = 0; row < p.rows; ++row)
      for (int64_t i = 0; i < p.k; ++i)
        p.codes[static_cast<size_t>(row * p.k + i)] =
            static_cast<int16_t>(row == i ? (i % 2 ? -top(width) : top(width) - i % 64) : 0);
    for (int64_t c = 0; c < p.n; ++c)
      for (int64_t i = 0; i < p.k; ++i)
        p.weights[static_cast<size_t>(c * p.k + i)] = static_cast<int8_t>((i * 7 + c * 31) % 255 - 127);
    visit_problem(visit, Kind::kHard, "one code per row", "a lost tail, swapped lanes, a transposed tile", p);
  }
}

void extremes(const Visit<Fn>& visit) {
  num::PhiloxStream random(112);
  for (const int width : {8, 15}) {
    for (const int64_t k : {31, 64, 130, 520, 1041, 131072}) {
      for (const int pattern : {0, 1, 2}) {
        Problem p = random_problem(random, k > 2000 ? 1 : 5, k > 2000 ? 3 : 18, k, width);
        for (size_t i = 0; i < p.codes.size(); ++i)
          p.codes[i] = static_cast<int16_t>(pattern == 2 && i % 2 ? -top(width) : top(width));
        for (size_t i = 0; i < p.weights.size(); ++i)
          p.weights[i] = static_cast<int8_t>(pattern == 1 || (pattern == 2 && i % 2) ? -127 : 127);
        visit_problem(visit, Kind::kHard, fmt::format("largest codes and weights, pattern {}", pattern),
                      "saturating pair products, sums that overflow", p);
        for (size_t i = 0; i < p.codes.size(); ++i)
          p.codes[i] = static_cast<int16_t>(width == 15 ? (i % 2 ? 64 : -64) : -p.codes[i]);
        visit_problem(visit, Kind::kHard, fmt::format("extreme low planes, pattern {}", pattern), "the planes' ranges", p);
      }
    }
  }
  for (const int width : {8, 15}) {
    Problem p = random_problem(random, 9, 35, 40, width);
    for (size_t i = 0; i < p.row_scales.size(); ++i) p.row_scales[i] = random_scale(random, -86, 90);
    for (size_t i = 0; i < p.channel_scales.size(); ++i) p.channel_scales[i] = random_scale(random, -40, 7);
    visit_problem(visit, Kind::kHard, "scales at the ends of their ranges",
                  "premultiplied scales, the activation's scale first", p);
    p.row_scales[3] = num::bf16_to_float(num::kBf16Nan);
    for (int64_t i = 0; i < p.k; ++i) p.codes[static_cast<size_t>(3 * p.k + i)] = 0;
    visit_problem(visit, Kind::kHard, "a faulted row", "a fault that becomes a number", p);
  }
}

// Bias that cancels the product to within a few units of its last place.
void cancelling_bias(const Visit<Fn>& visit) {
  num::PhiloxStream random(113);
  for (const int width : {8, 15}) {
    Problem p = random_problem(random, 1, 64, 48, width);
    for (int64_t c = 0; c < p.n; ++c) {
      int64_t acc = 0;
      for (int64_t i = 0; i < p.k; ++i)
        acc += int64_t{p.codes[static_cast<size_t>(i)]} * p.weights[static_cast<size_t>(c * p.k + i)];
      const float y = epilogue(num::i2f(acc), p.row_scales[0], p.channel_scales[static_cast<size_t>(c)], nullptr);
      p.bias.push_back(-num::float_of(num::bits_of(y) + static_cast<uint32_t>(c % 5) - 2));
    }
    visit_problem(visit, Kind::kHard, "a bias that cancels", "a product rounded before the bias is added, a bias in bf16", p);
  }
}

void shapes(const Visit<Fn>& visit) {
  num::PhiloxStream random(114);
  const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 63, 65, 127, 129, 257};
  for (const int width : {8, 15}) {
    for (int i = 0; i < 70; ++i) {
      const int64_t rows = i < 12 ? sizes[i] : 1 + random.below(24);
      const int64_t n = i >= 12 && i < 24 ? sizes[i - 12] : 1 + random.below(70);
      const int64_t k = i >= 24 && i < 36 ? sizes[i - 24] : 1 + random.below(400);
      Problem p = random_problem(random, rows, n, k, width, random.below(3));
      if (i % 2) add_bias(random, p);
      visit_problem(visit, Kind::kRandom, fmt::format("shape {}", i),
                    "tails, strides, a neighbour's scale, the order of the scales", p);
    }
    for (const int64_t k : {576, 896, 1536, 4864}) {
      Problem p = random_problem(random, 5, 40, k, width);
      visit_problem(visit, Kind::kRandom, "a model's width", "the order of the scales", p);
      for (float& s : p.channel_scales) s = num::pow2(static_cast<int>(random.below(12)) - 20);
      visit_problem(visit, Kind::kRandom, "power-of-two scales", "a neighbour's scale", p);
    }
  }
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  conversions(visit);
  single_hot(visit);
  extremes(visit);
  cancelling_bias(visit);
  shapes(visit);
}

}  // namespace zeroulp::ops::linear_s8
