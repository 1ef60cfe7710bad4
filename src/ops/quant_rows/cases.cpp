#include "ops/quant_rows/cases.h"

#include <fmt/format.h>

#include "ops/case_inputs.h"

namespace zeroulp::ops::quant_rows {
namespace {

using namespace conformance;

struct Rows {
  std::vector<uint16_t> x;
  int64_t rows, k;
  num::RowRange range = num::kLinearRange;
  std::vector<uint16_t> absmax = {};  // given when not empty
  int64_t gap = 0;                    // elements between rows
};

void visit_rows(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches, const Rows& in) {
  for (const int width : {8, 15}) {
    visit({kind, fmt::format("{}, {} bits", name, width), catches}, [&](Fn* run, Outputs& out) {
      const int64_t stride = in.k + in.gap;
      Guarded<int16_t> codes(in.rows * stride);
      Guarded<float> scales(in.rows);
      Guarded<uint8_t> faults(in.rows);
      run({in.x.data(), stride, in.rows, in.k, width, in.range, in.absmax.empty() ? nullptr : in.absmax.data(), codes.data(),
           stride, scales.data(), faults.data()});
      out.add("codes", codes);
      out.add("scales", scales);
      out.add("faults", faults);
    });
  }
}

// One binade of largest magnitudes with every smaller magnitude that a 15-bit code can tell from 0 or 1, both signs. The quotients
// depend on the fractions alone, so this stands for every binade inside the range.
void whole_binade(const Visit<Fn>& visit, const num::RowRange& range, const char* catches) {
  for (uint16_t a = 0x3F80; a < 0x4000; ++a) {
    Rows in{{}, 1, 0, range};
    for (uint16_t x = 0x3780; x <= a; ++x) {
      in.x.push_back(x);
      in.x.push_back(x | 0x8000);
    }
    in.k = static_cast<int64_t>(in.x.size());
    visit_rows(visit, Kind::kExhaustive, fmt::format("every x for the largest magnitude 0x{:04x}{}", a, range.pow2_scale ? ", power-of-two scale" : ""),
               catches, in);
  }
}

Rows one_row(std::vector<uint16_t> x) {
  const auto k = static_cast<int64_t>(x.size());
  return {std::move(x), 1, k};
}

void range_ends(const Visit<Fn>& visit, const num::RowRange& range, const char* name) {
  struct End {
    uint16_t top;
    const char* what;
  };
  const End ends[] = {{range.min_bits, "the smallest row with codes"},
                      {static_cast<uint16_t>(range.min_bits - 1), "the largest row that counts as zero"},
                      {range.max_bits, "the largest row with codes"},
                      {static_cast<uint16_t>(range.max_bits + 1), "the smallest row above the range"},
                      {0x0001, "the smallest subnormal"},
                      {0x007F, "the largest subnormal"},
                      {0x7F7F, "the largest number"},
                      {0x0000, "a zero row"},
                      {0x8000, "a row of -0"},
                      {0x7F80, "Inf"},
                      {0xFF80, "-Inf"},
                      {0x7F81, "a NaN of low payload"},
                      {0xFFFF, "a negative NaN"}};
  for (const End& end : ends) {
    for (const int64_t k : {1, 5, 17, 64}) {
      // The value in question last, where a tail is handled; the rest smaller.
      std::vector<uint16_t> x(static_cast<size_t>(k), static_cast<uint16_t>((end.top & 0x7F80) > 0x0100 ? 0x0100 : 0));
      x.back() = end.top;
      Rows in = one_row(x);
      in.range = range;
      visit_rows(visit, Kind::kHard, fmt::format("{}: {} in {} elements", name, end.what, k),
                 "a scale of 0 or Inf, 0 * Inf, a NaN lost in a floating-point maximum, flushed subnormals", in);
    }
  }
}

void directed(const Visit<Fn>& visit) {
  std::vector<uint16_t> halves = {0x42FE};  // 127
  for (int q = -126; q < 127; ++q) halves.push_back(num::float_to_bf16(static_cast<float>(q) + 0.5f));
  visit_rows(visit, Kind::kHard, "the largest magnitude is 127 and every quotient is a tie", "ties away from zero or upwards",
             one_row(halves));
  for (const int k : {-30, -1, 0, 1, 5, 40}) {
    const auto top = static_cast<int>(num::float_to_bf16(127.0f * num::pow2(k)));
    for (const int ulp : {-1, 0, 1}) {
      std::vector<uint16_t> x;
      for (int i = 0; i < 128; ++i) x.push_back(static_cast<uint16_t>(top + ulp - i));
      visit_rows(visit, Kind::kHard, fmt::format("127 * 2^{} and {} spacings", k, ulp), "a quotient just above or below 127",
                 one_row(x));
    }
  }
  std::vector<uint16_t> zero_between = {0x3F80, 0xC000, 0x4040, 0, 0x8000, 0, 0x3F00, 0x3E00, 0xBF80};
  visit_rows(visit, Kind::kHard, "a zero row between others", "a scale of 0 that becomes NaN", {zero_between, 3, 3});
  for (size_t at = 0; at < 70; at += 3) {
    std::vector<uint16_t> x(70, 0x3F80);
    x[at] = 0xC2C8;
    visit_rows(visit, Kind::kHard, fmt::format("the largest magnitude at {} of 70", at),
               "a maximum that misses a lane or the tail", one_row(x));
    x[at] = 0x7FC1;
    visit_rows(visit, Kind::kHard, fmt::format("a NaN at {} of 70", at), "a NaN lost in the maximum", one_row(x));
  }
  Rows given = {{0x3F80, 0x3F00, 0xBF80, 0x3E80, 0x3F80, 0x3F80, 0, 0, 0}, 3, 3};
  given.absmax = {0x4040, 0x7FC0, 0x4000};
  visit_rows(visit, Kind::kHard, "largest magnitudes given from elsewhere",
             "a rank that computes its own maximum, or misses another's NaN", given);
}

void random_shapes(const Visit<Fn>& visit) {
  num::PhiloxStream random(101);
  for (const int64_t k : kOddLengths) {
    const int64_t rows = 1 + random.below(4), gap = random.below(3);
    Rows in{bell_bf16s(random, rows * (k + gap), 3.0f), rows, k, num::kLinearRange, {}, gap};
    visit_rows(visit, Kind::kRandom, fmt::format("{} rows of {}, bell", rows, k), "tails, strides", in);
    in.x = random_bf16s(random, rows * (k + gap), 0, 255);
    in.range = num::kAttentionRange;
    visit_rows(visit, Kind::kRandom, fmt::format("{} rows of {}, any bits", rows, k), "tails, strides, range", in);
    in.x = random_bf16s(random, rows * (k + gap), 100, 170);
    visit_rows(visit, Kind::kRandom, fmt::format("{} rows of {}, wide exponents", rows, k), "tails, strides", in);
  }
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  whole_binade(visit, num::kLinearRange, "x / s, x * (1 / s), a contracted magic addition, ties away from zero, truncation");
  whole_binade(visit, num::kLinearPow2Range, "the nearest exponent, the exponent of the largest magnitude alone, ties away from zero, truncation");
  range_ends(visit, num::kLinearRange, "linear");
  range_ends(visit, num::kLinearPow2Range, "linear, power-of-two scale");
  range_ends(visit, num::kAttentionRange, "attention");
  directed(visit);
  random_shapes(visit);
}

}  // namespace zeroulp::ops::quant_rows
