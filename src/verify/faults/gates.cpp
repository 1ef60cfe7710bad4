#include "verify/faults/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "num/bf16.h"

namespace zeroulp::verify {
namespace {

constexpr double kLeastCosine = 0.999, kLargestRelative = 0.01;

template <class T>
T at(const Output& o, int64_t i) {
  T v;
  std::memcpy(&v, o.bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}
float value(const Output& o, int64_t i) { return o.element == Element::kBf16 ? num::bf16_to_float(at<uint16_t>(o, i)) : at<float>(o, i); }
uint16_t as_bf16(const Output& o, int64_t i) { return o.element == Element::kBf16 ? at<uint16_t>(o, i) : num::float_to_bf16(at<float>(o, i)); }

size_t apart(uint16_t a, uint16_t b) {
  const int64_t d = std::abs(num::ulp_distance_bf16(a, b));
  return d <= 2 ? static_cast<size_t>(d) : d <= 4 ? 3 : d <= 16 ? 4 : 5;
}

std::string text(const Output& o, int64_t i) {
  switch (o.element) {
    case Element::kBf16: return fmt::format("{} (0x{:04x})", value(o, i), at<uint16_t>(o, i));
    case Element::kF32: return fmt::format("{} (0x{:08x})", value(o, i), num::bits_of(value(o, i)));
    default: return fmt::format("{}", at<int64_t>(o, i));
  }
}

}  // namespace

void Apart::add(const Output& want, const Output& got) {
  ZU_CHECK(want.bytes.size() == got.bytes.size());
  const int64_t count = want.rows * want.width;
  const size_t size = want.bytes.size() / static_cast<size_t>(std::max<int64_t>(count, 1));
  integers = want.element == Element::kI64;
  ++outputs;
  elements += count;
  double xx = 0, gg = 0, xg = 0, largest = 0, largest_error = 0;
  bool nan = false;
  for (int64_t i = 0; i < count; ++i) {
    const bool same = std::memcmp(want.bytes.data() + static_cast<size_t>(i) * size, got.bytes.data() + static_cast<size_t>(i) * size, size) == 0;
    if (!same && differing++ == 0)
      first = fmt::format("{}, row {}, element {}: {} should be {}", want.place, i / want.width, i % want.width, text(got, i), text(want, i));
    if (integers) continue;
    const double x = value(want, i), g = value(got, i);
    if (std::isfinite(x) && std::isfinite(g)) {
      xx += x * x, gg += g * g, xg += x * g;
      largest = std::max(largest, std::fabs(x));
    }
    if (same) {
      ++spacings[0];
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(g)) {
      nan = true;
      ++spacings[6], ++beyond_torch, ++beyond_triton, ++beyond_cutlass;
      continue;
    }
    ++spacings[apart(as_bf16(want, i), as_bf16(got, i))];
    const double d = std::fabs(x - g), size_of_x = std::fabs(x);
    beyond_torch += d > 1e-5 + 1.6e-2 * size_of_x;
    beyond_triton += d > 0.1 + 0.1 * size_of_x;
    beyond_cutlass += d > 1.0 + 0.1 * size_of_x;
    largest_error = std::max(largest_error, d);
  }
  if (integers) return;
  least_cosine = std::min(least_cosine, nan ? 0.0 : xx > 0 && gg > 0 ? xg / std::sqrt(xx * gg) : xx == gg ? 1.0 : 0.0);
  largest_relative = std::max(largest_relative, nan ? 1e30 : largest > 0 ? largest_error / largest : largest_error > 0 ? 1e30 : 0.0);
}

Seen Apart::seen(Gate gate) const {
  const auto letter = [](bool noticed) { return noticed ? Seen::kNoticed : Seen::kPassed; };
  if (gate == Gate::kEqual) return letter(differing > 0);
  if (integers) return Seen::kNotAsked;
  switch (gate) {
    case Gate::kOneSpacing: return letter(spacings[0] + spacings[1] < elements);
    case Gate::kTorch: return letter(beyond_torch > 0);
    case Gate::kVllmTriton: return letter(beyond_triton > 0);
    case Gate::kVllmCutlass: return letter(beyond_cutlass > 0);
    case Gate::kCosine: return letter(!(least_cosine >= kLeastCosine));
    case Gate::kMaxRelative: return letter(!(largest_relative <= kLargestRelative));
    default: ZU_CHECK(false);
  }
}

}  // namespace zeroulp::verify
