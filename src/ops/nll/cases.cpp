#include "ops/nll/cases.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/case_inputs.h"

namespace zeroulp::ops::nll {
namespace {

using namespace conformance;

void visit_logits(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches,
                  const std::vector<float>& logits, const std::vector<int64_t>& targets) {
  for (const int64_t target : targets) {
    visit({kind, fmt::format("{}, target {}", name, target), catches}, [&](Fn* run, Outputs& out) {
      Args args{logits.data(), static_cast<int64_t>(logits.size()), target};
      run(args);
      out.add("result", args.result);
    });
  }
}

void hard(const Visit<Fn>& visit) {
  visit_logits(visit, Kind::kHard, "one logit", "a result below 0", {3.5f}, {0});
  for (const int64_t n : kOddLengths)
    visit_logits(visit, Kind::kHard, fmt::format("{} equal logits", n), "lanes past the end that count",
                 std::vector<float>(static_cast<size_t>(n), -7.25f), {n - 1});
  std::vector<float> steps;  // from certain to a term that rounds to nothing: 2^-41 is the last to count
  for (int i = 0; i <= 500; ++i) steps.push_back(static_cast<float>(-i) * 0.0625f);
  visit_logits(visit, Kind::kHard, "a ladder of logits", "terms truncated, or flushed", steps, {0, 16, 500});
  for (const float gap : {27.0f, 28.0f, 28.4f, 28.5f, 29.0f, 87.0f, 88.0f, 1000.0f})
    visit_logits(visit, Kind::kHard, fmt::format("{} apart", gap), "a term that rounds to nothing, an unclamped exponent",
                 {0.0f, -gap, 0.0f, -gap}, {0, 1});
  for (const float gap : {28.0f, 28.3f, 28.42f, 28.5f}) {  // 151,935 terms of about 3/4, 3/5, 1/2 and less of a unit
    std::vector<float> many(151936, -gap);
    many[77] = 0;
    visit_logits(visit, Kind::kHard, fmt::format("151,935 logits {} below one", gap), "terms truncated or left out", many, {0});
  }
  const float limit = 0x1p22f / num::kLog2E;
  for (const float gap : {limit * 0.999999f, limit, limit * 1.000001f, 1e9f, 3e38f})
    visit_logits(visit, Kind::kHard, fmt::format("a target {} below", gap), "an integer that overflows", {gap, 0.0f, -gap},
                 {0, 1, 2});
  for (const float bad : {NAN, num::float_of(0xFF800001), INFINITY, -INFINITY}) {
    for (const size_t at : {0, 7, 16, 32, 36}) {
      std::vector<float> v(37, 1.0f);
      v[at] = bad;
      visit_logits(visit, Kind::kHard, fmt::format("0x{:08x} at {} of 37", num::bits_of(bad), at), "a NaN passed over", v, {3});
    }
  }
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  std::vector<float> every;  // every bf16 number from -0 down, so every shape of a term
  for (uint32_t b = 0x8000; b < 0xFF80; ++b) every.push_back(num::bf16_to_float(static_cast<uint16_t>(b)));
  visit_logits(visit, Kind::kExhaustive, "every bf16 logit not above 0",
               "another exponential, terms truncated, sums in floating point", every, {0, 16000});
  // A single term beside 2^40: the result shows one term's value at a time in its fraction bits.
  for (uint32_t b = 0x3F00; b < 0x4200; ++b)
    visit_logits(visit, Kind::kExhaustive, fmt::format("0 and -0x{:04x}", b),
                 "another exponential, a logarithm rounded instead of truncated",
                 {0.0f, -num::bf16_to_float(static_cast<uint16_t>(b))}, {1});
  hard(visit);
  num::PhiloxStream random(107);
  for (const int64_t n : {int64_t{2}, int64_t{17}, int64_t{255}, int64_t{1000}, int64_t{49152}, int64_t{151936}}) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = bell(random, 4.0f);
    visit_logits(visit, Kind::kRandom, fmt::format("{} logits", n), "sums in floating point, an order", v, {0, n / 2, n - 1});
  }
}

}  // namespace zeroulp::ops::nll
