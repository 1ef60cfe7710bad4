// Pairwise covering arrays: few runs in which every pair of values of every two axes occurs.
#pragma once

#include <cstdint>
#include <vector>

namespace zeroulp::verify {

// `sizes`: the number of values of each axis. Each row has one value index per axis; the first row is all zeros. Greedy and deterministic.
std::vector<std::vector<int>> pairwise_covering_array(const std::vector<int>& sizes);

// How many of all pairs of values of two axes occur in the rows.
struct PairCoverage {
  int64_t covered = 0, total = 0;
};
PairCoverage pair_coverage(const std::vector<int>& sizes, const std::vector<std::vector<int>>& rows);

}  // namespace zeroulp::verify
