#include "codec/choose.h"

#include <algorithm>
#include <array>

namespace zeroulp::codec {
namespace {

// sums[i]: samples below symbol i.
using Sums = std::array<uint32_t, 257>;

uint32_t inside(const Sums& sums, int begin, int width) {
  return sums[static_cast<size_t>(begin + width)] - sums[static_cast<size_t>(begin)];
}

// The symbols that occur: [low, high].
struct Range {
  int low, high;
};

Range range_of(const uint32_t* histogram, int symbols) {
  const auto eight_are_0 = [&](int s) {
    uint32_t any = 0;
    for (int i = 0; i < 8; ++i) any |= histogram[s + i];
    return any == 0;
  };
  Range r = {0, symbols - 1};
  while (r.low + 8 < symbols && eight_are_0(r.low)) r.low += 8;
  while (r.low < r.high && histogram[r.low] == 0) ++r.low;
  while (r.high - 8 > r.low && eight_are_0(r.high - 7)) r.high -= 8;
  while (r.high > r.low && histogram[r.high] == 0) --r.high;
  return r;
}

// The lowest begin in [first, last] whose window holds most. Windows that touch no symbol need no look, and before the first that
// does all are equal.
int fullest(const Sums& sums, Range occur, int width, int first, int last) {
  int best = first;
  for (int begin = std::max(first + 1, occur.low - width + 1), end = std::min(last, occur.high); begin <= end; ++begin)
    if (inside(sums, begin, width) > inside(sums, best, width)) best = begin;
  return best;
}

}  // namespace

Choice choose(const uint32_t* histogram, uint32_t samples, int exponent_bits, Level level) {
  const int symbols = 1 << exponent_bits;
  const Range occur = range_of(histogram, symbols);
  Sums sums;
  std::fill_n(sums.begin(), occur.low + 1, 0u);
  for (int s = occur.low; s <= occur.high; ++s) sums[static_cast<size_t>(s) + 1] = sums[static_cast<size_t>(s)] + histogram[s];
  std::fill(sums.begin() + occur.high + 1, sums.end(), samples);

  Choice choice;
  uint32_t least = UINT32_MAX;
  const Mode last = level == Level::kFast ? Mode::kW4 : Mode::kT33;
  for (uint8_t m = static_cast<uint8_t>(Mode::kW4); m <= static_cast<uint8_t>(last); ++m) {
    const Windows w = windows_of(static_cast<Mode>(m));
    const int both = w.width1 + w.width2;
    const int first = fullest(sums, occur, w.width1, 0, symbols - 1 - w.width1);
    const int base = fullest(sums, occur, both, std::max(0, first - w.width2), std::min(first, symbols - 1 - both));
    const uint32_t bits = estimated_bits(w, samples, inside(sums, first, w.width1), inside(sums, base, both));
    if (bits < least) {
      least = bits;
      choice = {static_cast<Mode>(m), static_cast<uint8_t>(base), static_cast<uint8_t>(first - base)};
    }
  }
  return choice;
}

}  // namespace zeroulp::codec
