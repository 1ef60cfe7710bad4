#include "verify/covering.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace zeroulp::verify {
namespace {

using Pair = std::tuple<size_t, int, size_t, int>;  // axis, value, later axis, value

std::set<Pair> all_pairs(const std::vector<int>& sizes) {
  std::set<Pair> pairs;
  for (size_t a = 0; a < sizes.size(); ++a)
    for (size_t b = a + 1; b < sizes.size(); ++b)
      for (int x = 0; x < sizes[a]; ++x)
        for (int y = 0; y < sizes[b]; ++y) pairs.insert({a, x, b, y});
  return pairs;
}

void remove_covered(std::set<Pair>& open, const std::vector<int>& row) {
  for (size_t a = 0; a < row.size(); ++a)
    for (size_t b = a + 1; b < row.size(); ++b) open.erase({a, row[a], b, row[b]});
}

// Open pairs that a partial row (-1: not chosen) would cover by giving `axis` the value `value`.
int gain(const std::set<Pair>& open, const std::vector<int>& row, size_t axis, int value) {
  int count = 0;
  for (size_t other = 0; other < row.size(); ++other) {
    if (other == axis || row[other] < 0) continue;
    const Pair pair = other < axis ? Pair{other, row[other], axis, value} : Pair{axis, value, other, row[other]};
    count += open.contains(pair);
  }
  return count;
}

// Open pairs that hold this value at all: breaks ties towards values that still have much to meet.
int need(const std::set<Pair>& open, size_t axis, int value) {
  return static_cast<int>(std::count_if(open.begin(), open.end(), [&](const Pair& p) {
    return (std::get<0>(p) == axis && std::get<1>(p) == value) || (std::get<2>(p) == axis && std::get<3>(p) == value);
  }));
}

std::vector<int> next_row(const std::set<Pair>& open, const std::vector<int>& sizes) {
  std::vector<int> row(sizes.size(), -1);
  const auto& [a, x, b, y] = *open.begin();
  row[a] = x;
  row[b] = y;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (row[axis] >= 0) continue;
    int best = 0;
    for (int value = 1; value < sizes[axis]; ++value)
      if (std::pair(gain(open, row, axis, value), need(open, axis, value)) > std::pair(gain(open, row, axis, best), need(open, axis, best)))
        best = value;
    row[axis] = best;
  }
  return row;
}

}  // namespace

std::vector<std::vector<int>> pairwise_covering_array(const std::vector<int>& sizes) {
  std::vector<std::vector<int>> rows = {std::vector<int>(sizes.size(), 0)};
  std::set<Pair> open = all_pairs(sizes);
  remove_covered(open, rows[0]);
  while (!open.empty()) {
    rows.push_back(next_row(open, sizes));
    remove_covered(open, rows.back());
  }
  return rows;
}

PairCoverage pair_coverage(const std::vector<int>& sizes, const std::vector<std::vector<int>>& rows) {
  std::set<Pair> open = all_pairs(sizes);
  const auto total = static_cast<int64_t>(open.size());
  for (const std::vector<int>& row : rows) remove_covered(open, row);
  return {total - static_cast<int64_t>(open.size()), total};
}

}  // namespace zeroulp::verify
