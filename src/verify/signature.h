// What a difference looks like, and which kind of fault looks like that. The features of an op's output as it should be and as it is go into
// a table that was learnt from the fault catalogue (src/verify/faults); the answer is the class of the likeliest fault there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeroulp::verify {

enum class FaultClass {
  kNone,               // nothing differs
  kFinalRounding,      // the result is rounded by another rule
  kExtraRounding,      // one rounding too many or too few on the way
  kOrder,              // exact steps in another order or fused: the last bit of an fp32 value
  kFloatSum,           // a sum in floating point
  kOverflow,           // saturation or wrap-around on the way to the sum
  kLostElements,       // elements left out of a sum, or of the output
  kWrongScale,         // the scale of another row or channel
  kLayout,             // operands in another order, rows or halves exchanged
  kOffset,             // a zero point that was not taken off
  kBias,               // how the bias is added
  kQuantiserRounding,  // how the quantiser rounds
  kQuantiserRange,     // which maximum it takes, where it clamps
  kConstant,           // epsilon, score constant, number of elements
  kApproximation,      // another exponential, reciprocal or square root
  kMask,               // visible keys, positions
  kCache,              // a page of the KV cache
  kSpecialValues,      // NaN, infinities, zeros, subnormals
  kTie                 // which of equals is chosen
};
inline constexpr size_t kFaultClasses = static_cast<size_t>(FaultClass::kTie) + 1;
std::string_view class_name(FaultClass fault_class);

// The type of the compared elements.
enum class Element { kBf16, kF32, kI8, kU8, kI16, kI32, kI64 };

// One op's output under both: rows of `width` elements, dense. `op` as in ops/conformance.h (linear_s8, attention, ...); a row is a token's, and
// rows of one sequence follow each other.
struct Observed {
  std::string_view op;
  Element element = Element::kBf16;
  int64_t rows = 0, width = 0;
  const void* expected = nullptr;
  const void* got = nullptr;
};

// Each feature falls into one of at most kBuckets buckets; -1: cannot be told.
inline constexpr int kBuckets = 8;
enum class Feature {
  kRows,          // share of the rows that differ
  kElements,      // share of the elements that differ, in rows that do
  kColumns,       // share of the columns that differ somewhere, against what scattered differences would touch
  kFirstRow,      // where the first differing row stands
  kFirstColumn,   // where the differing elements begin in their rows
  kLargest,       // the largest distance in units in the last place
  kOnes,          // share of the distances that are one unit
  kAway,          // share of the differing elements that are larger in size than they should be
  kEven,          // share of the differing elements whose expected value is even
  kError,         // size of the error against the size of the row
  kCosine,        // of the angle between expected and got
  kRatioRow,      // is got a multiple of expected, the same for a whole row?
  kRatioColumn,   // ..., for a whole column?
  kShuffled,      // does the row hold the same values in another order, or another row's?
  kTrend,         // does the error grow with the row's number?
  kZeros,         // zeros and NaN where there should be none, or the reverse
  kLayer,         // the layer of the first difference; of run logs only
};
inline constexpr size_t kFeatures = static_cast<size_t>(Feature::kLayer) + 1;
using Features = std::array<int8_t, kFeatures>;
std::string_view feature_name(Feature feature);

Features features_of(const Observed& observed);

// Of run logs: which rows of the residual stream differ where it differs first, in this layer.
inline constexpr std::string_view kLogAttention = "log attention", kLogMlp = "log MLP";
Features features_of_rows(const std::vector<bool>& differs, int64_t layer);

// The op in whose output a fault of `op` is seen: of the quantiser in the linear's, of the cache in attention's, of tables in the rotated rows.
std::string_view seen_at(std::string_view op);

// The likeliest class with its share of the evidence, and the catalogue's fault that is most like it. `op` as in Observed, or kLogAttention, kLogMlp.
struct Likely {
  FaultClass fault_class = FaultClass::kNone;
  double share = 0;        // posterior, all classes of the op sum to 1
  std::string_view fault;  // name in the registry; empty when the op has no signatures
  std::string text() const;  // "elements left out (83 %), as in 'k-tail'"
};
Likely likely_fault(std::string_view op, const Features& features);
inline Likely likely_fault(const Observed& observed) { return likely_fault(observed.op, features_of(observed)); }

}  // namespace zeroulp::verify
