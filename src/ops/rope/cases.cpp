#include "ops/rope/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "num/sincos.h"
#include "ops/case_inputs.h"

namespace zeroulp::ops::rope {
namespace {

using namespace conformance;

struct Heads {
  std::vector<uint16_t> x;
  int64_t rows, heads, d;
  std::vector<int32_t> positions;
  std::vector<uint16_t> cos, sin;
  int64_t gap = 0;
};

void visit_heads(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches, const Heads& in) {
  visit({kind, name, catches}, [&](Fn* run, Outputs& out) {
    Guarded<uint16_t> x(in.x);
    run({x.data(), in.heads * in.d + in.gap, in.rows, in.heads, in.d, in.positions.data(), in.cos.data(), in.sin.data()});
    out.add("x", x);
  });
}

// Every x1 with an x2 that is a given function of it, against one (cos, sin).
void every_x(const Visit<Fn>& visit, uint16_t c, uint16_t s) {
  struct Partner {
    const char* name;
    uint16_t multiply, exclusive_or;
  };
  for (const Partner& p :
       {Partner{"itself", 1, 0}, Partner{"its negative neighbour", 1, 0x8001}, Partner{"a permutation", 40503, 0x1234}}) {
    const int64_t half = 64;
    Heads in{std::vector<uint16_t>(131072), 1, 65536 / half, 2 * half, {0}, {}, {}};
    for (uint32_t v = 0; v < 65536; ++v) {
      const size_t at = v / half * 2 * half + v % half;
      in.x[at] = static_cast<uint16_t>(v);
      in.x[at + half] = static_cast<uint16_t>(v * p.multiply) ^ p.exclusive_or;
    }
    in.cos.assign(half, c);
    in.sin.assign(half, s);
    visit_heads(visit, Kind::kExhaustive, fmt::format("every x1 with {} by cos 0x{:04x}, sin 0x{:04x}", p.name, c, s),
                "contraction (products of subnormals are not exact), three roundings, a wrong sign", in);
  }
}

// Tables that no angle gives, where a contraction shows: products below the subnormal spacing, and products that overflow.
void contraction(const Visit<Fn>& visit) {
  // 129 * 255 - 1 * 253 / 2 in units of 2^-149: the difference of the rounded product is 1 above a tie, the fused one is the tie.
  Heads in{std::vector<uint16_t>(64, 0x0081), 1, 1, 64, {0}, std::vector<uint16_t>(32, 0x3B7F),
           std::vector<uint16_t>(32, 0x3AFD)};
  std::fill(in.x.begin() + 32, in.x.end(), uint16_t{0x0001});
  visit_heads(visit, Kind::kHard, "a product that is not exact", "contraction", in);
  in = {std::vector<uint16_t>(64, 0x7F00), 1, 1, 64, {0}, std::vector<uint16_t>(32, 0x4000), std::vector<uint16_t>(32, 0x4000)};
  visit_heads(visit, Kind::kHard, "products that overflow", "contraction", in);
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  num::PhiloxStream random(105);
  every_x(visit, 0x3F80, 0x0000);
  every_x(visit, 0x0000, 0xBF80);
  every_x(visit, 0x7FC0, 0x3F00);
  for (const uint32_t position : {1u, 22u, 355u, 2047u, 131071u}) {
    for (const float w : {1.0f, 0.01f, 1e-6f}) {
      const num::SinCosBf16 e = num::sincos_bf16(position, w);
      every_x(visit, e.cos, e.sin);
    }
  }
  contraction(visit);
  for (const int64_t d : {2, 4, 6, 16, 30, 32, 34, 62, 64, 66, 80, 128, 130, 256}) {
    const int64_t half = d / 2, positions = 9;
    Heads in{{}, 5, 3, d, {8, 0, 3, 3, 7}, {}, {}, 5};
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t i = 0; i < half; ++i) {
        const num::SinCosBf16 e = num::sincos_bf16(static_cast<uint32_t>(p * 977), random_scale(random, -18, -1));
        in.cos.push_back(e.cos);
        in.sin.push_back(e.sin);
      }
    }
    in.x = bell_bf16s(random, in.rows * (in.heads * d + in.gap), 2.0f);
    visit_heads(visit, Kind::kRandom, fmt::format("3 heads of {}, 5 rows", d),
                "tails, strides, interleaved pairs, the wrong position", in);
    in.x = random_bf16s(random, in.rows * (in.heads * d + in.gap), 0, 40);
    visit_heads(visit, Kind::kHard, fmt::format("3 heads of {}, 5 rows, tiny values", d), "contraction, flushed subnormals",
                in);
  }
  // A table in which every position has an angle of its own, beyond what 8 significant bits tell apart.
  Heads late{bell_bf16s(random, 12 * 2 * 32, 2.0f), 12, 2, 32, {255, 256, 257, 258, 259, 511, 513, 514, 1021, 1022, 1023, 1024}, {}, {}};
  for (uint32_t p = 0; p <= 1024; ++p)
    for (int i = 0; i < 16; ++i) {
      const num::SinCosBf16 e = num::sincos_bf16(p, num::pow2(-i));
      late.cos.push_back(e.cos);
      late.sin.push_back(e.sin);
    }
  visit_heads(visit, Kind::kHard, "positions around 256, 512 and 1,024", "positions kept in bf16", late);
}

void table_cases(const Visit<TableFn>& visit) {
  for (const float base : {1e4f, 1e6f}) {
    visit({Kind::kHard, fmt::format("the first 2,048 positions and some late ones, base {}", base), "a rounded angle, truncated entries"}, [&](TableFn* run, Outputs& out) {
      std::vector<uint16_t> entries;
      for (uint32_t p = 0; p < 2048 + 64; ++p)
        for (int i = 0; i < 8; ++i) {
          const auto frequency = static_cast<float>(std::pow(static_cast<double>(base), -i / 8.0));
          const num::SinCosBf16 e = run(p < 2048 ? p : 2048 + (p - 2048) * 1999, frequency, 1.0f);
          entries.push_back(e.cos);
          entries.push_back(e.sin);
        }
      out.add("entries", Guarded<uint16_t>(entries));
    });
  }
}

}  // namespace zeroulp::ops::rope
