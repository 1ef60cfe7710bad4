#include "ops/sample/cases.h"

#include <fmt/format.h>

#include <cmath>

#include "num/bits.h"
#include "ops/case_inputs.h"

namespace zeroulp::ops::sample {
namespace {

using namespace conformance;

void visit_draws(const Visit<DrawFn>& visit, Kind kind, const std::string& name, const std::string& catches, const std::vector<float>& logits,
                 const Settings& settings, uint32_t draws, uint64_t request = 0) {
  for (uint32_t position = 0; position < draws; ++position) {
    visit({kind, fmt::format("{}, position {}", name, position), catches}, [&](DrawFn* run, Outputs& out) {
      DrawArgs args{logits.data(), static_cast<int64_t>(logits.size()), settings, position, request};
      run(args);
      out.add("token", args.token);
    });
  }
}

}  // namespace

void draw_one(DrawArgs& a) { a.token = Sampler(a.count).draw(a.logits, a.count, a.settings, a.position, a.request); }

void cases(const Visit<DrawFn>& visit) {
  const std::vector<float> ties = {0, 2, 2, 5, 2, 2}, halves = {-2, 0, -1, -2};  // with T = log2(e): weights 1/8, 1/2, 1/4, 1/8
  visit_draws(visit, Kind::kHard, "temperature 0", "the last of equals", ties, {}, 1);
  visit_draws(visit, Kind::kHard, "top-k among equals", "ties of top-k by another order", ties, {1.0f, 3, 1.0, 7}, 40);
  for (const double p : {0.5, 0.75, 0.75 + 1.0 / 65536, 0.875, 1e-9, 1.0})
    visit_draws(visit, Kind::kHard, fmt::format("top-p {} at exact weights", p), "a sum of probabilities in floating point, a boundary off by one", halves,
                {num::kLog2E, 0, p, 3}, 24);
  visit_draws(visit, Kind::kHard, "-0 beside +0", "an order of bits", {-0.0f, 0.0f, -1.0f}, {1.0f, 1, 1.0, 0}, 4);
  for (const float bad : {NAN, INFINITY, -INFINITY})
    visit_draws(visit, Kind::kHard, fmt::format("0x{:08x} among the logits", num::bits_of(bad)), "a NaN that wins, or is passed over", {1.0f, bad, 0.0f}, {1.0f, 0, 1.0, 0}, 1);
  visit_draws(visit, Kind::kHard, "a request of 64 bits", "a counter that drops the request's high half", halves, {num::kLog2E, 0, 1.0, 0x0123456789ABCDEF}, 24,
              0x8877665544332211);
  num::PhiloxStream random(123);
  for (const int64_t n : {2, 17, 255, 1000, 49152}) {
    std::vector<float> logits(static_cast<size_t>(n));
    for (float& l : logits) l = bell(random, 2.0f);
    for (const float t : {0.3f, 1.0f, 2.5f})
      visit_draws(visit, Kind::kRandom, fmt::format("{} logits, temperature {}", n, t), "a cumulative sum in floating point, another random number", logits,
                  {t, n > 100 ? 50 : 0, 0.95, 99}, 6, 5);
  }
}

}  // namespace zeroulp::ops::sample
