// What tensor-parallel ranks exchange: exact maxima and exact integer sums, so that the degree of parallelism moves no bit.
#pragma once

#include <barrier>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace zeroulp::engine {

// Collective calls: every rank calls the same ones in the same order with the same sizes.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Element-wise over all ranks, the result on every rank.
  virtual void max(std::span<uint16_t> values) = 0;
  virtual void sum(std::span<int64_t> values) = 0;
  // Concatenates the ranks' floats in rank order; `counts` has every rank's number of them.
  virtual void gather(std::span<const float> mine, std::span<const int64_t> counts, std::span<float> all) = 0;
};

// Ranks that are threads of one process.
class LocalGroup {
 public:
  explicit LocalGroup(int size);
  ~LocalGroup();
  Exchange& rank(int r);

 private:
  class Rank;
  std::barrier<> barrier_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// The part of [0, count) that belongs to a rank; parts may be empty.
struct Part {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
constexpr Part part_of(int64_t count, int rank, int size) { return {count * rank / size, count * (rank + 1) / size}; }

}  // namespace zeroulp::engine
