#include "ops/rmsnorm/cases.h"

#include <fmt/format.h>

#include "ops/case_inputs.h"

namespace zeroulp::ops::rmsnorm {
namespace {

using namespace conformance;

struct Rows {
  std::vector<uint16_t> x;
  int64_t rows, d;
  std::vector<uint16_t> weight;
  float eps = 1e-5f;
  int64_t gap = 0;
};

void visit_rows(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches, const Rows& in) {
  const int64_t stride = in.d + in.gap;
  visit({kind, name, catches}, [&](Fn* run, Outputs& out) {
    Guarded<uint16_t> y(in.rows * stride);
    run({in.x.data(), stride, in.rows, in.d, in.weight.data(), in.eps, y.data(), stride});
    out.add("y", y);
  });
}

Rows one_row(std::vector<uint16_t> x, uint16_t weight = 0x3F80) {
  const auto d = static_cast<int64_t>(x.size());
  return {std::move(x), 1, d, std::vector<uint16_t>(static_cast<size_t>(d), weight)};
}

// Every x below a limit in one row: each meets the row's factor, and the sum meets every shift.
void every_x(const Visit<Fn>& visit) {
  num::PhiloxStream random(108);
  for (const int limit : {2, 27, 28, 60, 127, 128, 150, 180, 187, 190}) {
    std::vector<uint16_t> x;
    for (uint32_t b = 0; b < static_cast<uint32_t>(limit) << 7; ++b) {
      x.push_back(static_cast<uint16_t>(b));
      x.push_back(static_cast<uint16_t>(b | 0x8000));
    }
    visit_rows(visit, Kind::kExhaustive, fmt::format("every x below 2^{}, weight 1", limit - 127),
               "one rounding instead of two, an approximate square root, shifts of 64 and more taken modulo 64", one_row(x));
    Rows weighted = one_row(x);
    weighted.weight = random_bf16s(random, weighted.d, 110, 140);
    visit_rows(visit, Kind::kExhaustive, fmt::format("every x below 2^{}, weights of every kind", limit - 127), "as above",
               weighted);
  }
  for (int field = 0; field < 256; ++field) {  // 255: Inf and NaN
    std::vector<uint16_t> x;
    for (int b = 0; b < 128; ++b) {
      x.push_back(static_cast<uint16_t>((field << 7) | b));
      x.push_back(static_cast<uint16_t>((field << 7) | b | 0x8000));
    }
    visit_rows(visit, Kind::kExhaustive, fmt::format("every x of exponent field {}", field),
               "a mean that underflows, or overflows into zeros; Inf or NaN that spoils only its own element",
               one_row(x, 0x3FA5));
  }
}

void spread(const Visit<Fn>& visit) {
  for (int gap = 10; gap <= 50; ++gap) {  // shift 26 - 2 gap: 20 is the last that counts, beyond 45 the shift passes 64
    std::vector<uint16_t> x(33, static_cast<uint16_t>(((180 - gap) << 7) | 0x7F));
    x[31] = static_cast<uint16_t>((180 << 7) | 0x15);
    visit_rows(visit, Kind::kHard, fmt::format("one element 2^{} above the others", gap),
               "shifts taken modulo 64, terms rounded not floored", one_row(x));
  }
  for (const int64_t d : {1, 2, 33, 576}) {
    for (const uint16_t huge : {0x5E80, 0x5F00, 0x5F7F, 0x5F80, 0x6000, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0xFF81}) {
      std::vector<uint16_t> x(static_cast<size_t>(d), 0x3F80);
      x.back() = huge;
      visit_rows(visit, Kind::kHard, fmt::format("0x{:04x} last of {}", huge, d), "a mean that overflows and makes zeros",
                 one_row(x));
    }
    visit_rows(visit, Kind::kHard, fmt::format("{} zeros", d), "0 / 0",
               one_row(std::vector<uint16_t>(static_cast<size_t>(d), 0x0000)));
    visit_rows(visit, Kind::kHard, fmt::format("{} negative zeros", d), "a lost sign",
               one_row(std::vector<uint16_t>(static_cast<size_t>(d), 0x8000)));
    visit_rows(visit, Kind::kHard, fmt::format("{} subnormals", d), "flushed subnormals",
               one_row(std::vector<uint16_t>(static_cast<size_t>(d), 0x0003), 0x7F00));
  }
}

// 4,716 squares of 255/128, one of 186/128 and one of 2^-20 make a sum just above the middle of two floats: in 64-bit floating point
// the last unit is lost, and the second rounding then goes down. The 128 elements of 2^-30 add nothing and show the factor.
void twice_rounded(const Visit<Fn>& visit) {
  std::vector<uint16_t> x(4716, (127 << 7) | 0x7F);
  x.push_back((127 << 7) | (186 - 128));
  x.push_back((127 - 20) << 7);
  for (int b = 0; b < 128; ++b) x.push_back(static_cast<uint16_t>(((127 - 30) << 7) | b));
  visit_rows(visit, Kind::kHard, "a sum that two roundings get wrong", "a sum converted by way of binary64", one_row(x));
  Rows full = one_row(std::vector<uint16_t>(static_cast<size_t>(kMaxD), 0x3FFF), 0x4000);
  full.x[77] = 0xBF81;
  visit_rows(visit, Kind::kHard, "2^21 elements of the largest significand", "a sum that overflows 64 bits", full);
}

// 16,384 different factors, each with all 128 fractions: two elements set the sum, the others are too small to.
void every_factor(const Visit<Fn>& visit) {
  Rows in{{}, 16384, 130, std::vector<uint16_t>(130, 0x3F80)};
  for (int row = 0; row < 16384; ++row) {
    in.x.push_back(static_cast<uint16_t>(0x3F80 | row >> 7));
    in.x.push_back(static_cast<uint16_t>(0x3F00 | (row & 0x7F)));
    for (int b = 0; b < 128; ++b) in.x.push_back(static_cast<uint16_t>(((127 - 40) << 7) | b));
  }
  visit_rows(visit, Kind::kHard, "16,384 factors by every fraction",
             "an approximate square root or division, a reciprocal square root rounded once", in);
}

void shapes(const Visit<Fn>& visit) {
  num::PhiloxStream random(109);
  for (const int64_t d : kOddLengths) {
    const int64_t rows = 1 + random.below(4), gap = random.below(3);
    Rows in{bell_bf16s(random, rows * (d + gap), 1.5f), rows, d, random_bf16s(random, d, 122, 129), 1e-6f, gap};
    visit_rows(visit, Kind::kRandom, fmt::format("{} rows of {}, bell", rows, d), "tails, strides", in);
    visit({Kind::kHard, fmt::format("{} rows of {}, in place", rows, d), "a sum read after it was written over"},
          [&](Fn* run, Outputs& out) {
            Guarded<uint16_t> y(in.x);
            run({y.data(), d + gap, rows, d, in.weight.data(), in.eps, y.data(), d + gap});
            out.add("y", y);
          });
    in.x = random_bf16s(random, rows * (d + gap), 0, 190);
    in.eps = 0.5f;
    visit_rows(visit, Kind::kRandom, fmt::format("{} rows of {}, wide exponents", rows, d), "tails, strides, shifts", in);
  }
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  every_x(visit);
  spread(visit);
  twice_rounded(visit);
  every_factor(visit);
  shapes(visit);
}

}  // namespace zeroulp::ops::rmsnorm
