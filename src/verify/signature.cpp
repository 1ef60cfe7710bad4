#include "verify/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "num/bf16.h"
#include "num/digest.h"
#include "verify/faults/registry.h"

namespace zeroulp::verify {
namespace {

// One array of an Observed: values and places in the order of representable numbers.
class Values {
 public:
  Values(Element element, const void* data) : element_(element), data_(data) {}
  double value(int64_t i) const {
    switch (element_) {
      case Element::kBf16: return num::bf16_to_float(at<uint16_t>(i));
      case Element::kF32: return at<float>(i);
      default: return static_cast<double>(place(i));
    }
  }
  int64_t place(int64_t i) const {
    switch (element_) {
      case Element::kBf16: return num::ordered(at<uint16_t>(i), 16);
      case Element::kF32: return num::ordered(num::bits_of(at<float>(i)), 32);
      case Element::kI8: return at<int8_t>(i);
      case Element::kU8: return at<uint8_t>(i);
      case Element::kI16: return at<int16_t>(i);
      case Element::kI32: return at<int32_t>(i);
      case Element::kI64: return at<int64_t>(i);
    }
    return 0;
  }
  // Equal bits. (Both zeros have one place.)
  bool same(const Values& other, int64_t i) const {
    return place(i) == other.place(i) && std::signbit(value(i)) == std::signbit(other.value(i));
  }

 private:
  template <class T>
  T at(int64_t i) const {
    return static_cast<const T*>(data_)[i];
  }
  Element element_;
  const void* data_;
};

// The bucket of a value among ascending upper ends; above all of them the last.
int8_t bucket(double value, std::initializer_list<double> ends) {
  int8_t b = 0;
  for (const double end : ends) {
    if (value <= end) return b;
    ++b;
  }
  return b;
}
constexpr auto kShareEnds = {0.02, 0.2, 0.4, 0.6, 0.8, 0.98};

// What is counted while all elements are looked at once.
struct Counts {
  std::vector<int64_t> rows;  // that differ
  std::vector<int64_t> in_column;
  int64_t elements = 0, ones = 0, away = 0, even = 0, nan_got = 0, zero_got = 0, zero_expected = 0, first_column = INT64_MAX;
  int64_t largest = 0;
  std::vector<double> row_error;  // of the differing rows: relative
  double xx = 0, gg = 0, xg = 0, ee = 0;  // over differing rows, NaN left out
  int64_t scaled_rows = 0;
  std::vector<double> cxx, cgg, cxg;  // per column, all rows
};

// |g - a x| is small beside |(a - 1) x|, a by least squares: g is a multiple of x.
bool is_multiple(double xx, double gg, double xg) {
  if (xx <= 0) return false;
  const double a = xg / xx, rest = std::max(0.0, gg - a * xg), moved = (a - 1) * (a - 1) * xx;
  return moved > 0 && rest < 0.04 * moved;
}

Counts count(const Observed& o) {
  const Values want(o.element, o.expected), got(o.element, o.got);
  const auto width = static_cast<size_t>(o.width);
  Counts c;
  c.in_column.assign(width, 0);
  c.cxx.assign(width, 0), c.cgg.assign(width, 0), c.cxg.assign(width, 0);
  for (int64_t row = 0; row < o.rows; ++row) {
    double xx = 0, gg = 0, xg = 0;
    const int64_t before = c.elements;
    for (int64_t col = 0; col < o.width; ++col) {
      const int64_t i = row * o.width + col;
      const double x = want.value(i), g = got.value(i);
      if (std::isfinite(x) && std::isfinite(g)) {
        xx += x * x, gg += g * g, xg += x * g;
        const auto k = static_cast<size_t>(col);
        c.cxx[k] += x * x, c.cgg[k] += g * g, c.cxg[k] += x * g;
      }
      if (want.same(got, i)) continue;
      ++c.elements;
      ++c.in_column[static_cast<size_t>(col)];
      c.first_column = std::min(c.first_column, col);
      if (std::isnan(g) || std::isnan(x)) {
        ++c.nan_got;
        continue;
      }
      const int64_t distance = std::abs(want.place(i) - got.place(i));
      c.largest = std::max(c.largest, distance);
      c.ones += distance <= 1;
      c.away += std::fabs(g) > std::fabs(x);
      c.even += want.place(i) % 2 == 0;
      c.zero_got += g == 0 && x != 0;
      c.zero_expected += x == 0 && g != 0;
    }
    if (c.elements == before) continue;
    c.rows.push_back(row);
    c.xx += xx, c.gg += gg, c.xg += xg;
    const double ee = std::max(0.0, xx + gg - 2 * xg);
    c.ee += ee;
    c.row_error.push_back(xx > 0 ? std::sqrt(ee / xx) : 1);
    c.scaled_rows += is_multiple(xx, gg, xg);
  }
  return c;
}

// 0: neither; 1: most of the looked-at rows are another row; 2: most hold the expected values in another order.
int8_t shuffled(const Observed& o, const std::vector<int64_t>& rows) {
  constexpr size_t kLooked = 12;
  const Values want(o.element, o.expected), got(o.element, o.got);
  const auto places = [&](const Values& v, int64_t row) {
    std::vector<int64_t> p(static_cast<size_t>(o.width));
    for (int64_t i = 0; i < o.width; ++i) p[static_cast<size_t>(i)] = v.place(row * o.width + i);
    return p;
  };
  size_t others = 0, orders = 0, looked = 0;
  std::vector<uint64_t> digests;
  for (int64_t row = 0; row < o.rows; ++row) digests.push_back(num::digest_of(std::span<const int64_t>(places(want, row))).low);
  for (size_t i = 0; i < rows.size(); i += std::max<size_t>(1, rows.size() / kLooked)) {
    ++looked;
    std::vector<int64_t> g = places(got, rows[i]), x = places(want, rows[i]);
    others += std::find(digests.begin(), digests.end(), num::digest_of(std::span<const int64_t>(g)).low) != digests.end();
    std::sort(g.begin(), g.end());
    std::sort(x.begin(), x.end());
    orders += g == x;
  }
  return 2 * orders > looked ? 2 : 2 * others > looked ? 1 : 0;
}

int8_t trend(const std::vector<double>& errors) {
  if (errors.size() < 8) return -1;
  const auto half = static_cast<int64_t>(errors.size() / 2);
  const double first = std::accumulate(errors.begin(), errors.begin() + half, 0.0) / static_cast<double>(half);
  const double second = std::accumulate(errors.begin() + half, errors.end(), 0.0) / static_cast<double>(errors.size() - static_cast<size_t>(half));
  return bucket(second / std::max(first, 1e-300), {0.5, 0.8, 1.25, 2});
}

int8_t first_row_bucket(int64_t row) {
  return row == 0 ? 0 : row == 1 ? 1 : row < 16 ? 2 : row < 128 ? 3 : row == 128 ? 4 : row < 256 ? 5 : row == 256 ? 6 : 7;
}

}  // namespace

std::string_view class_name(FaultClass fault_class) {
  static constexpr std::array<std::string_view, kFaultClasses> kNames = {
      "no difference",        "rounding of the result", "a rounding too many or too few", "order or fusion of exact steps", "a sum in floating point",
      "overflow of a sum",    "elements left out",      "the scale of another row or channel", "operands in another order", "an offset not taken off",
      "the bias",             "rounding of the quantiser", "range of the quantiser",      "a constant",                 "an approximate function",
      "mask or position",     "a page of the cache",    "special values",                "choice among equals"};
  return kNames[static_cast<size_t>(fault_class)];
}

std::string_view feature_name(Feature feature) {
  static constexpr std::array<std::string_view, kFeatures> kNames = {"rows",  "elements", "columns",      "first row",      "first column", "largest distance",
                                                                     "ones",  "away",     "even",         "error",          "cosine",       "multiple by row",
                                                                     "multiple by column", "shuffled",    "trend",          "zeros",
                                                                     "layer"};
  return kNames[static_cast<size_t>(feature)];
}

Features features_of(const Observed& o) {
  Features f;
  f.fill(-1);
  const auto set = [&f](Feature feature, int8_t b) { f[static_cast<size_t>(feature)] = b; };
  const Counts c = count(o);
  if (c.elements == 0) return f;
  const auto n = static_cast<double>(c.elements), rows = static_cast<double>(c.rows.size()), width = static_cast<double>(o.width);
  const double in_rows = n / (rows * width);
  if (o.rows >= 4) {
    set(Feature::kRows, c.rows.size() == static_cast<size_t>(o.rows) ? int8_t{6} : bucket(rows / static_cast<double>(o.rows), {0.02, 0.1, 0.3, 0.6, 0.9}));
    set(Feature::kFirstRow, first_row_bucket(c.rows.front()));
    set(Feature::kShuffled, shuffled(o, c.rows));
  }
  set(Feature::kElements, bucket(in_rows, {1e-4, 1e-3, 1e-2, 0.1, 0.35, 0.6, 0.95}));
  if (n >= 4 && o.rows >= 4) {
    const auto touched = static_cast<double>(std::count_if(c.in_column.begin(), c.in_column.end(), [](int64_t k) { return k > 0; }));
    set(Feature::kColumns, bucket(touched / (width * (1 - std::exp(-n / width))), {0.1, 0.3, 0.6, 0.9, 1.1}));
  }
  set(Feature::kFirstColumn, c.first_column == 0 ? int8_t{0} : static_cast<int8_t>(1 + bucket(static_cast<double>(c.first_column) / width, {0.1, 0.499, 0.501, 0.9})));
  set(Feature::kLargest, c.nan_got > 0 && c.largest == 0 ? int8_t{7} : bucket(static_cast<double>(c.largest), {1, 2, 4, 16, 256, 65536}));
  set(Feature::kOnes, static_cast<int8_t>(bucket(1 - static_cast<double>(c.ones) / n, {0, 0.01, 0.1, 0.5, 0.8, 0.95, 1 - 1e-9})));
  set(Feature::kAway, bucket(static_cast<double>(c.away) / n, kShareEnds));
  set(Feature::kEven, bucket(static_cast<double>(c.even) / n, kShareEnds));
  if (c.xx > 0) {
    set(Feature::kError, bucket(std::sqrt(c.ee / c.xx), {1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.3, 1}));
    set(Feature::kCosine, bucket(1 - c.xg / std::sqrt(c.xx * std::max(c.gg, 1e-300)), {1e-7, 1e-5, 1e-3, 1e-2, 0.1, 0.5, 1.5}));
  }
  set(Feature::kRatioRow, bucket(static_cast<double>(c.scaled_rows) / rows, {0.1, 0.5, 0.9}));
  if (c.rows.size() >= 4) {
    double scaled = 0, differing = 0;
    for (size_t k = 0; k < c.in_column.size(); ++k) {
      if (c.in_column[k] == 0) continue;
      ++differing;
      scaled += is_multiple(c.cxx[k], c.cgg[k], c.cxg[k]);
    }
    set(Feature::kRatioColumn, bucket(scaled / differing, {0.1, 0.5, 0.9}));
  }
  set(Feature::kTrend, trend(c.row_error));
  set(Feature::kZeros, c.nan_got > 0 ? int8_t{2} : c.zero_got > c.elements / 20 ? int8_t{1} : c.zero_expected > c.elements / 20 ? int8_t{3} : int8_t{0});
  return f;
}

Features features_of_rows(const std::vector<bool>& differs, int64_t layer) {
  Features f;
  f.fill(-1);
  const auto first = std::find(differs.begin(), differs.end(), true);
  if (first == differs.end()) return f;
  const auto n = static_cast<double>(std::count(differs.begin(), differs.end(), true)), rows = static_cast<double>(differs.size());
  f[static_cast<size_t>(Feature::kRows)] = n == rows ? int8_t{6} : bucket(n / rows, {0.02, 0.1, 0.3, 0.6, 0.9});
  f[static_cast<size_t>(Feature::kFirstRow)] = first_row_bucket(first - differs.begin());
  f[static_cast<size_t>(Feature::kLayer)] = static_cast<int8_t>(std::min<int64_t>(layer, 2));
  return f;
}

std::string_view seen_at(std::string_view op) {
  return op == "quant_rows" ? "linear_s8" : op == "kv_cache" ? "attention" : op == "rope_table" ? "rope" : op;
}

namespace {

// One fault as it was seen in an op's output: for each feature the shares of the buckets in fifteenths, one hexadecimal digit each.
struct Signature {
  std::string_view seen_at, fault, shares;
};
constexpr Signature kSignatures[] = {
#include "verify/signature_table.inc"
    {"", "", ""}};

// log P(features | fault), the features taken as independent; a bucket that was never seen is not impossible.
double log_likelihood(const Signature& s, const Features& features) {
  constexpr double kUnseen = 0.4;
  double sum = 0;
  for (size_t f = 0; f < kFeatures; ++f) {
    if (features[f] < 0) continue;
    const char digit = s.shares[f * (kBuckets + 1) + static_cast<size_t>(features[f])];
    const int fifteenths = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    sum += std::log((fifteenths + kUnseen) / (15 + kBuckets * kUnseen));
  }
  return sum;
}

// Without signatures of the op: what the features say to anyone.
FaultClass first_guess(const Features& f) {
  const auto at = [&f](Feature feature) { return static_cast<int>(f[static_cast<size_t>(feature)]); };
  if (at(Feature::kElements) < 0) return FaultClass::kNone;
  if (at(Feature::kZeros) == 2) return FaultClass::kSpecialValues;
  if (at(Feature::kShuffled) > 0) return FaultClass::kLayout;
  if (at(Feature::kRatioRow) == 3 || at(Feature::kRatioColumn) == 3) return FaultClass::kWrongScale;
  if (at(Feature::kOnes) <= 1) {
    if (at(Feature::kAway) == 0 || at(Feature::kAway) == 6 || at(Feature::kEven) == 6) return FaultClass::kFinalRounding;
    return at(Feature::kElements) >= 3 ? FaultClass::kExtraRounding : FaultClass::kOrder;
  }
  if (at(Feature::kElements) <= 2) return FaultClass::kOverflow;
  return at(Feature::kError) >= 4 ? FaultClass::kLostElements : FaultClass::kExtraRounding;
}

}  // namespace

std::string Likely::text() const {
  return fmt::format("{} ({:.0f} %{})", class_name(fault_class), 100 * share, fault.empty() ? "" : fmt::format(", as in '{}'", fault));
}

Likely likely_fault(std::string_view op, const Features& features) {
  if (std::all_of(features.begin(), features.end(), [](int8_t f) { return f < 0; })) return {FaultClass::kNone, 1, {}};
  constexpr double kDependence = 2;  // features are not independent: their evidence counts half
  std::vector<std::pair<const Signature*, double>> candidates;
  double best = -HUGE_VAL;
  for (const Signature& s : kSignatures)
    if (s.seen_at == op && !op.empty()) {
      candidates.emplace_back(&s, log_likelihood(s, features) / kDependence);
      best = std::max(best, candidates.back().second);
    }
  if (candidates.empty()) return {first_guess(features), 1, {}};
  std::array<double, kFaultClasses> shares{};
  double total = 0;
  for (auto& [signature, weight] : candidates) {
    weight = std::exp(weight - best);
    total += weight;
    if (const Fault* fault = find_fault(signature->fault)) shares[static_cast<size_t>(fault->fault_class)] += weight;
  }
  const auto most = std::max_element(shares.begin(), shares.end());
  Likely answer{static_cast<FaultClass>(most - shares.begin()), *most / total, {}};
  double most_like = 0;
  for (const auto& [signature, weight] : candidates) {
    const Fault* fault = find_fault(signature->fault);
    if (fault == nullptr || fault->fault_class != answer.fault_class || weight <= most_like) continue;
    most_like = weight;
    answer.fault = fault->name;
  }
  return answer;
}

}  // namespace zeroulp::verify
