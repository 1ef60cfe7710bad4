#include "ops/residual/cases.h"

#include <fmt/format.h>

#include "ops/case_inputs.h"

namespace zeroulp::ops::residual {
namespace {

using namespace conformance;

void visit_sum(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches,
               const std::vector<uint16_t>& x, const std::vector<uint16_t>& y) {
  visit({kind, name, catches}, [&](Fn* run, Outputs& out) {
    Guarded<uint16_t> sum(x);
    run({sum.data(), y.data(), static_cast<int64_t>(x.size())});
    out.add("x", sum);
  });
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  const std::vector<uint16_t> every = every_bf16();
  std::vector<uint16_t> addends(std::begin(kSpecialBf16), std::end(kSpecialBf16));
  num::PhiloxStream random(102);
  for (int i = 0; i < 16; ++i) addends.push_back(random_bf16(random, 1, 254));
  for (const uint16_t y : addends)
    visit_sum(visit, Kind::kExhaustive, fmt::format("every x plus 0x{:04x}", y),
              "ties away, truncation, NaN turned into Inf, lost subnormals", every, std::vector<uint16_t>(every.size(), y));
  std::vector<uint16_t> neighbour = every;
  for (uint16_t& v : neighbour) v ^= 0x8001;
  visit_sum(visit, Kind::kHard, "every x less its neighbour", "cancellation into subnormals flushed to zero", every, neighbour);
  std::vector<uint16_t> tie = every;  // half a spacing of x, with either sign: exact ties of both parities
  for (size_t i = 0; i < tie.size(); ++i) {
    const int e = (tie[i] >> 7) & 0xFF;
    tie[i] = static_cast<uint16_t>((i % 3 ? 0 : 0x8000) | (e > 8 ? (e - 8) << 7 : 0));
  }
  visit_sum(visit, Kind::kHard, "every x and half its spacing", "ties away from zero instead of to even", every, tie);
  for (const int64_t n : kOddLengths)
    visit_sum(visit, Kind::kRandom, fmt::format("{} elements", n), "tails", random_bf16s(random, n, 120, 130),
              random_bf16s(random, n, 118, 132));
}

}  // namespace zeroulp::ops::residual
