#include "report/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace zeroulp::report {
namespace {

// 10^e, exact for |e| <= 22 and the same on every machine.
double power_of_ten(int e) {
  double p = 1;
  for (int i = 0; i < std::abs(e); ++i) p *= 10;
  return e < 0 ? 1 / p : p;
}

// The largest e with 10^e <= value; value > 0.
int decade(double value) {
  int e = static_cast<int>(std::floor(std::log10(value)));
  while (power_of_ten(e) > value) --e;
  while (power_of_ten(e + 1) <= value) ++e;
  return e;
}

// count * mantissa * 10^exponent, divided rather than multiplied for negative exponents, so that 3 * 0.1 is 0.3.
double multiple(int64_t count, int mantissa, int exponent) {
  const double whole = static_cast<double>(count) * mantissa;
  return exponent < 0 ? whole / power_of_ten(-exponent) : whole * power_of_ten(exponent);
}

std::string tick_label(double value, int exponent) {
  const double size = std::abs(value);
  if (size >= 1e15 || (size != 0 && exponent < -5)) return fmt::format("{:g}", value);
  constexpr struct {
    double unit;
    const char* suffix;
    int exponent;
  } kUnits[] = {{1e12, "T", 12}, {1e9, "G", 9}, {1e6, "M", 6}, {1e3, "k", 3}};
  for (const auto& u : kUnits)
    if (size >= u.unit * (u.exponent == 3 ? 10 : 1))
      return fmt::format("{:.{}f}{}", value / u.unit, std::max(0, u.exponent - exponent), u.suffix);
  return fmt::format("{:.{}f}", value, std::max(0, -exponent));
}

std::string superscript(int value) {
  constexpr const char* kDigits[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                     "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
  std::string out;
  for (const char c : fmt::format("{}", value)) out += c == '-' ? "\u207b" : kDigits[c - '0'];
  return out;
}

// Of m * 10^e. Plain where every number of the axis can be: from 0.001 to 100k.
std::string log_label(int m, int e, bool plain) {
  if (plain) return tick_label(multiple(1, m, e), e);
  return (m == 1 ? "10" : fmt::format("{}\u00b710", m)) + superscript(e);
}

}  // namespace

double Axis::position(double value) const {
  if (scale == Scale::kLinear) return (value - low) / (high - low);
  if (!(value > 0)) return -1;
  return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
}

Axis linear_axis(double low, double high, int target) {
  if (!std::isfinite(low) || !std::isfinite(high)) low = 0, high = 1;
  if (low > high) std::swap(low, high);
  if (low == high) {
    if (low > 0)
      low = 0;
    else if (high < 0)
      high = 0;
    else
      high = 1;
  }
  const double raw = (high - low) / std::max(1, target);
  int exponent = decade(raw);
  int mantissa = 1;
  for (const int m : {1, 2, 5, 10}) {
    mantissa = m;
    if (multiple(1, m, exponent) >= raw * (1 - 1e-12)) break;
  }
  if (mantissa == 10) {
    mantissa = 1;
    ++exponent;
  }
  const double step = multiple(1, mantissa, exponent);
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  Axis axis{.scale = Scale::kLinear,
            .low = multiple(first, mantissa, exponent),
            .high = multiple(last, mantissa, exponent),
            .ticks = {}};
  for (int64_t i = first; i <= last; ++i) {
    const double value = multiple(i, mantissa, exponent);
    axis.ticks.push_back({value, tick_label(value, exponent)});
  }
  return axis;
}

Axis log_axis(double low, double high, int target) {
  if (!(low > 0) || !(high > 0) || !std::isfinite(low) || !std::isfinite(high)) low = 1, high = 10;
  if (low > high) std::swap(low, high);
  // Positions count the round numbers 1, 2, 5, 10, 20, ...: three to a decade.
  constexpr int kMantissas[] = {1, 2, 5};
  const auto floor_third = [](int position) { return position >= 0 ? position / 3 : (position - 2) / 3; };
  const auto mantissa = [&](int position) { return kMantissas[position - 3 * floor_third(position)]; };
  const auto value = [&](int position) { return multiple(1, mantissa(position), floor_third(position)); };
  int first = 3 * decade(low), last = 3 * decade(high);
  while (value(first + 1) <= low) ++first;
  while (value(last) < high) ++last;
  if (first == last) --first, ++last;

  Axis axis{.scale = Scale::kLog, .low = value(first), .high = value(last), .ticks = {}};
  const bool plain = axis.low >= 1e-3 && axis.high <= 1e5;
  const bool all = last - first <= target;
  const int step = 3 * std::max(1, ((last - first) / 3 + target - 1) / std::max(1, target));
  for (int i = all ? first : 3 * floor_third(first + 2); i <= last; i += all ? 1 : step)
    axis.ticks.push_back({value(i), log_label(mantissa(i), floor_third(i), plain)});
  return axis;
}

}  // namespace zeroulp::report
