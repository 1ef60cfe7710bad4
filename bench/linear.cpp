// Speed of linear_s8 per variant on one thread, on the shapes of two small models, beside the ceilings measured in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels.h"
#include "num/philox.h"
#include "ops/linear_s8/contract.h"
#include "ops/linear_s8/reference.h"
#include "peaks.h"

namespace zeroulp::bench {
namespace {

namespace linear_s8 = ops::linear_s8;

struct Shape {
  std::string_view name;
  int64_t n, k;
  bool head = false;  // only the last row of a prefill reaches the LM head
};
constexpr Shape kShapes[] = {
    {"linear.smollm2.qkv", 960, 576},
    {"linear.smollm2.o", 576, 576},
    {"linear.smollm2.gate_up", 3072, 576},
    {"linear.smollm2.down", 576, 1536},
    {"linear.smollm2.head", 49152, 576, true},
    {"linear.qwen0.5b.qkv", 1152, 896},
    {"linear.qwen0.5b.gate_up", 9728, 896},
    {"linear.qwen0.5b.down", 896, 4864},
    {"linear.qwen0.5b.head", 151936, 896, true},
};
constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 64, 512};

struct Data {
  std::vector<int16_t> codes;
  std::vector<int8_t> weights;
  std::vector<float> row_scales, channel_scales;
  std::vector<uint16_t> y;
};

Data make(const Shape& s, int64_t rows, int width) {
  Data d;
  num::PhiloxStream random(7);
  const int top = width == 15 ? 16256 : 127;
  d.codes.resize(static_cast<size_t>(rows * s.k));
  for (int16_t& c : d.codes) c = static_cast<int16_t>(static_cast<int>(random.below(2 * static_cast<unsigned>(top) + 1)) - top);
  d.weights.resize(static_cast<size_t>(s.n * s.k));
  for (int8_t& w : d.weights) w = static_cast<int8_t>(static_cast<int>(random.below(255)) - 127);
  d.row_scales.assign(static_cast<size_t>(rows), 0x1.23p-9f);
  d.channel_scales.assign(static_cast<size_t>(s.n), 0x1.57p-11f);
  d.y.resize(static_cast<size_t>(rows * s.n));
  return d;
}

linear_s8::Args args(const Shape& s, Data& d, int64_t rows, int width) {
  return {d.codes.data(),          s.k,     d.row_scales.data(),      rows,       s.k, width, d.weights.data(), s.k, s.n,
          d.channel_scales.data(), nullptr, linear_s8::Output::kBf16, d.y.data(), s.n};
}

// Compares up to 40 channels, spread over all, with the reference.
bool right(const linear_s8::Args& a) {
  std::vector<uint16_t> want(static_cast<size_t>(a.rows));
  const auto* y = static_cast<const uint16_t*>(a.y);
  for (int64_t c = 0; c < a.n; c += std::max<int64_t>(1, a.n / 40 | 1)) {
    linear_s8::Args one = a;
    one.weights += c * a.weights_stride;
    one.channel_scales += c;
    one.n = 1;
    one.y = want.data();
    one.y_stride = 1;
    linear_s8::reference(one);
    for (int64_t r = 0; r < a.rows; ++r)
      if (y[r * a.y_stride + c] != want[static_cast<size_t>(r)]) return false;
  }
  return true;
}

}  // namespace

int run_linear(std::string_view filter) {
  if (std::none_of(std::begin(kShapes), std::end(kShapes),
                   [&](const Shape& s) { return s.name.find(filter) != std::string_view::npos; }))
    return 0;
  const double amx = peak_amx_gmacs(), vnni = peak_vnni_gmacs(), maddwd = peak_maddwd_gmacs();
  fmt::print(
      "{}, one thread\npeak from registers, GMAC/s (half of it for two planes): tdpbssd {:.0f}, vpdpbusd {:.0f}; vpmaddwd+vpaddd {:.0f}\n",
      cpu_features().model, amx, vnni, maddwd);
  fmt::print("{:<24} {:>5} {:>5}  {:<12} {:>10} {:>9} {:>7} {:>8} {:>9}\n", "shape", "rows", "width", "variant", "us", "GMAC/s",
             "of peak", "GB/s", "of read");
  for (const Shape& s : kShapes) {
    if (s.name.find(filter) == std::string_view::npos) continue;
    for (int64_t rows : kRows) {
      if (s.head && rows > 8) continue;
      for (int width : {15, 8}) {
        Data d = make(s, rows, width);
        const double read = rows <= 8 ? read_bandwidth(d.weights) : 0;
        for (const auto& v : linear_s8::variants()) {
          if (v.needs == ops::Needs::kNothing || !ops::why_unavailable(v.needs, cpu_features()).empty()) continue;
          const linear_s8::Args a = args(s, d, rows, width);
          v.run(a);
          if (!right(a)) {
            fmt::print(stderr, "{}: {} is not the reference's answer\n", s.name, v.name);
            return 1;
          }
          const double t = seconds_of([&] { v.run(a); });
          const double gmacs = 1e-9 * static_cast<double>(rows * s.n * s.k) / t;
          const double bytes_peak = v.needs == ops::Needs::kAmxInt8 ? amx : vnni;
          const double peak = v.needs == ops::Needs::kAvx2 ? maddwd : width == 15 ? bytes_peak / 2 : bytes_peak;
          const double bytes = static_cast<double>(d.weights.size()) / t;
          fmt::print("{:<24} {:>5} {:>5}  {:<12} {:>10.1f} {:>9.1f} {:>6.0f}%", s.name, rows, width, v.name, t * 1e6, gmacs,
                     100 * gmacs / peak);
          if (read > 0) fmt::print(" {:>8.1f} {:>8.0f}%", bytes * 1e-9, 100 * bytes / read);
          fmt::print("\n");
        }
      }
    }
  }
  return 0;
}

}  // namespace zeroulp::bench
