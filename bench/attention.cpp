// Speed of attention per variant on one thread: one KV head with its query heads, decoding at several context lengths and in prefill.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels.h"
#include "num/philox.h"
#include "ops/attention/contract.h"
#include "ops/attention/reference.h"
#include "peaks.h"

namespace zeroulp::bench {
namespace {

namespace attention = ops::attention;
namespace kv_cache = ops::kv_cache;

struct Shape {
  std::string_view name;
  int64_t d, group, keys, rows;  // the rows are the last positions
};
constexpr Shape kShapes[] = {
    {"attention.smollm2.decode", 64, 3, 128, 1},     {"attention.smollm2.decode", 64, 3, 2048, 1},
    {"attention.smollm2.decode", 64, 3, 16384, 1},   {"attention.smollm2.prefill", 64, 3, 512, 512},
    {"attention.smollm2.prefill", 64, 3, 4096, 512}, {"attention.qwen0.5b.decode", 64, 7, 2048, 1},
    {"attention.qwen0.5b.prefill", 64, 7, 512, 512}, {"attention.d128.decode", 128, 4, 2048, 1},
    {"attention.d128.prefill", 128, 4, 512, 512},
};

struct Data {
  std::vector<std::vector<std::byte>> blocks;
  std::vector<const std::byte*> pages;
  std::vector<int16_t> q;
  std::vector<float> q_scales;
  std::vector<uint16_t> out;
  std::vector<uint8_t> faults;
};

Data make(const Shape& s, const kv_cache::Layout& layout) {
  Data d;
  num::PhiloxStream random(7);
  std::vector<uint16_t> k(static_cast<size_t>(s.d)), v = k;
  for (int64_t j = 0; j < s.keys; ++j) {
    if (j % kv_cache::kBlock == 0) d.blocks.emplace_back(static_cast<size_t>(layout.bytes()));
    for (uint16_t& x : k) x = num::float_to_bf16(random.symmetric());
    for (uint16_t& x : v) x = num::float_to_bf16(random.symmetric());
    kv_cache::store(d.blocks.back().data(), layout, j % kv_cache::kBlock, k.data(), v.data());
  }
  for (const auto& block : d.blocks) d.pages.push_back(block.data());
  const auto heads = static_cast<size_t>(s.rows * s.group);
  d.q.resize(heads * static_cast<size_t>(s.d));
  for (int16_t& x : d.q) x = static_cast<int16_t>(static_cast<int>(random.below(32513)) - 16256);
  d.q_scales.assign(heads, 0x1p-13f);
  d.out.resize(d.q.size());
  d.faults.resize(static_cast<size_t>(s.rows));
  return d;
}

int measure(const Shape& s, int key_width) {
  const kv_cache::Layout layout{s.d, key_width};
  Data d = make(s, layout);
  attention::Args a{layout,
                    s.rows,
                    s.group,
                    s.keys - s.rows,
                    0,
                    attention::score_constant(s.d, key_width),
                    d.q.data(),
                    s.group * s.d,
                    d.q_scales.data(),
                    s.group,
                    d.pages.data(),
                    0,
                    d.out.data(),
                    s.group * s.d,
                    d.faults.data(),
                    1};
  // A multiply-add for each element of each visible key's K and V.
  const double macs =
      2.0 * static_cast<double>(s.d * s.group * s.rows) * (static_cast<double>(s.keys) - 0.5 * static_cast<double>(s.rows - 1));
  const double bytes = static_cast<double>(s.keys * layout.bytes() / kv_cache::kBlock);
  attention::reference(a);
  const std::vector<uint16_t> want = d.out;
  for (const auto& v : attention::variants()) {
    if (!ops::why_unavailable(v.needs, cpu_features()).empty()) continue;
    if (v.needs == ops::Needs::kNothing && s.rows > 1) continue;  // minutes
    std::fill(d.out.begin(), d.out.end(), uint16_t{0});
    v.run(a);
    if (d.out != want) {
      fmt::print(stderr, "{}: {} is not the reference's answer\n", s.name, v.name);
      return 1;
    }
    const double t = seconds_of([&] { v.run(a); });
    fmt::print("{:<26} {:>5} {:>5} {:>5}  {:<12} {:>10.1f} {:>9.1f}", s.name, s.keys, s.rows, key_width, v.name, t * 1e6,
               1e-9 * macs / t);
    if (s.rows == 1) fmt::print(" {:>8.1f}", 1e-9 * bytes / t);
    fmt::print("\n");
  }
  return 0;
}

}  // namespace

int run_attention(std::string_view filter) {
  if (std::none_of(std::begin(kShapes), std::end(kShapes),
                   [&](const Shape& s) { return s.name.find(filter) != std::string_view::npos; }))
    return 0;
  fmt::print("{:<26} {:>5} {:>5} {:>5}  {:<12} {:>10} {:>9} {:>8}\n", "shape", "keys", "rows", "width", "variant", "us",
             "GMAC/s", "GB/s");
  for (const Shape& s : kShapes)
    for (int key_width : {15, 8})
      if (s.name.find(filter) != std::string_view::npos)
        if (const int rc = measure(s, key_width)) return rc;
  return 0;
}

}  // namespace zeroulp::bench
