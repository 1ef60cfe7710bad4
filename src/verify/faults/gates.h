// The gates on an op's output: what each says of two outputs, and how far apart these are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "verify/faults/capture.h"
#include "verify/faults/registry.h"

namespace zeroulp::verify {

// bf16 spacings between two results: 0, 1, 2, 3-4, 5-16, more, NaN in one. fp32 results are rounded to bf16 first.
inline constexpr std::array<std::string_view, 7> kApartNames = {"equal", "1", "2", "3-4", "5-16", "more", "NaN"};

struct Apart {
  int64_t outputs = 0, elements = 0, differing = 0;     // bits
  std::array<int64_t, kApartNames.size()> spacings{};  // of all elements
  int64_t beyond_torch = 0, beyond_triton = 0, beyond_cutlass = 0;
  double least_cosine = 1, largest_relative = 0;  // of the outputs
  std::string first;                              // the first difference, in words; empty: none
  bool integers = false;                          // no number: spacings, distances and cosine are not asked

  void add(const Output& expected, const Output& got);
  // The letter of one of the seven gates on outputs. Of integers only equality is asked.
  Seen seen(Gate gate) const;
};

}  // namespace zeroulp::verify
