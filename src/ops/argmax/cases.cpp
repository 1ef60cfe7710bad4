#include "ops/argmax/cases.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/case_inputs.h"

namespace zeroulp::ops::argmax {
namespace {

using namespace conformance;

void visit_logits(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches,
                  const std::vector<float>& logits) {
  visit({kind, name, catches}, [&](Fn* run, Outputs& out) {
    Args args{logits.data(), static_cast<int64_t>(logits.size())};
    run(args);
    out.add("index", args.index);
  });
}

std::vector<float> falling(int64_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = -1.0f - static_cast<float>(i) * 0.25f;
  return x;
}

void ties(const Visit<Fn>& visit) {
  visit_logits(visit, Kind::kHard, "0, 1, 1", "the last of equals", {0, 1, 1});
  std::vector<float> x(512, 0.0f);
  x[5] = x[256] = 3.0f;
  visit_logits(visit, Kind::kHard, "512 logits, the largest at 5 and 256", "the order of lanes or of threads", x);
  for (const size_t first : {0, 1, 7, 8, 15, 16, 17, 31, 32, 63}) {
    for (const size_t second : {1, 8, 16, 24, 31, 33, 64, 66}) {
      if (second <= first) continue;
      std::vector<float> v = falling(67);
      v[first] = v[second] = 9.0f;
      visit_logits(visit, Kind::kHard, fmt::format("67 logits, equal at {} and {}", first, second),
                   "the last of equals, the order of lanes", v);
      v[first] = -0.0f, v[second] = 0.0f;
      visit_logits(visit, Kind::kHard, fmt::format("-0 at {}, +0 at {}", first, second), "a comparison of bits, -0 below +0",
                   v);
      v[first] = 0.0f, v[second] = -0.0f;
      visit_logits(visit, Kind::kHard, fmt::format("+0 at {}, -0 at {}", first, second), "a comparison of bits", v);
    }
  }
  for (const int64_t n : kOddLengths) {
    visit_logits(visit, Kind::kHard, fmt::format("{} equal logits", n), "the last of equals",
                 std::vector<float>(static_cast<size_t>(n), -2.5f));
    std::vector<float> v = falling(n);
    v.back() = 1.0f;
    visit_logits(visit, Kind::kHard, fmt::format("the largest last of {}", n), "a lost tail", v);
    v.back() = num::float_of(0x00000001);
    v.front() = 0.0f;
    visit_logits(visit, Kind::kHard, fmt::format("a subnormal last of {}, 0 first", n), "flushed subnormals", v);
  }
}

void not_finite(const Visit<Fn>& visit) {
  for (const float bad : {NAN, -NAN, num::float_of(0x7F800001), INFINITY, -INFINITY}) {
    for (const size_t at : {0, 1, 15, 16, 40, 63, 64, 66}) {
      std::vector<float> v = falling(67);
      v[at] = bad;
      visit_logits(visit, Kind::kHard, fmt::format("0x{:08x} at {} of 67", num::bits_of(bad), at),
                   "a NaN that wins, or is passed over", v);
    }
    visit_logits(visit, Kind::kHard, fmt::format("0x{:08x} alone", num::bits_of(bad)), "a NaN that wins", {bad});
  }
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  ties(visit);
  not_finite(visit);
  num::PhiloxStream random(106);
  for (const int64_t n : kOddLengths) {
    for (int i = 0; i < 20; ++i) {
      std::vector<float> v(static_cast<size_t>(n));
      for (float& x : v) x = std::floor(random.symmetric() * 6.0f);
      visit_logits(visit, Kind::kRandom, fmt::format("{} small integers, draw {}", n, i), "ties", v);
    }
  }
  std::vector<float> large(151936);
  for (float& x : large) x = bell(random, 3.0f);
  visit_logits(visit, Kind::kRandom, "151,936 logits", "a narrow index", large);
}

}  // namespace zeroulp::ops::argmax
