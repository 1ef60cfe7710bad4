#include "ops/silu_mul/cases.h"

#include <fmt/format.h>

#include "ops/case_inputs.h"

namespace zeroulp::ops::silu_mul {
namespace {

using namespace conformance;

void visit_pairs(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches,
                 const std::vector<uint16_t>& gate, const std::vector<uint16_t>& up) {
  visit({kind, name, catches}, [&](Fn* run, Outputs& out) {
    Guarded<uint16_t> y(static_cast<int64_t>(gate.size()));
    run({gate.data(), up.data(), static_cast<int64_t>(gate.size()), y.data()});
    out.add("y", y);
  });
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  num::PhiloxStream random(104);
  const std::vector<uint16_t> every = every_bf16();
  std::vector<uint16_t> ups(std::begin(kSpecialBf16), std::end(kSpecialBf16));
  for (int i = 0; i < 8; ++i) ups.push_back(random_bf16(random, 120, 134));
  for (const uint16_t up : ups)
    visit_pairs(visit, Kind::kExhaustive, fmt::format("every gate with up 0x{:04x}", up),
                "one rounding instead of two, a library's exp, an approximate division, a clamp that loses NaN, no clamp",
                every, std::vector<uint16_t>(every.size(), up));
  std::vector<uint16_t> shuffled = every;
  for (size_t i = shuffled.size() - 1; i > 0; --i) std::swap(shuffled[i], shuffled[random.below(i + 1)]);
  visit_pairs(visit, Kind::kExhaustive, "every gate with every up, once each", "as above", every, shuffled);
  for (const int64_t n : kOddLengths) {
    const std::vector<uint16_t> gate = bell_bf16s(random, n, 4.0f), up = bell_bf16s(random, n, 4.0f);
    visit_pairs(visit, Kind::kRandom, fmt::format("{} elements", n), "tails", gate, up);
    visit({Kind::kHard, fmt::format("{} elements, written over the gate", n), "a variant that reads what it wrote"},
          [&](Fn* run, Outputs& out) {
            Guarded<uint16_t> y(gate);
            run({y.data(), up.data(), n, y.data()});
            out.add("y", y);
          });
    visit({Kind::kHard, fmt::format("{} elements, written over the up", n), "a variant that reads what it wrote"},
          [&](Fn* run, Outputs& out) {
            Guarded<uint16_t> y(up);
            run({gate.data(), y.data(), n, y.data()});
            out.add("y", y);
          });
  }
}

}  // namespace zeroulp::ops::silu_mul
