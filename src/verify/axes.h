// The digest table: one workload under many configurations, every one of which must give the same bits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "verify/covering.h"
#include "verify/digests.h"

namespace zeroulp::verify {

// The axes and the values that are tried. The first value of each is the baseline's.
struct Axes {
  std::vector<std::string> kernels;
  std::vector<int> threads = {1, 2, 3};
  std::vector<int> batch = {1, 2, 3, 8};
  std::vector<int64_t> chunk = {0, 1, 7, 64};
  std::vector<int> ranks = {1, 2, 3, 4};
  std::vector<bool> prefix_cache = {false, true};

  std::vector<int> sizes() const;
  RunConfig config(const std::vector<int>& indices) const;
  // With the kernels that this machine can run; without the reference if there is another one and `fast_only`.
  static Axes on_this_machine(bool fast_only);
};

struct TableRow {
  RunConfig config;
  std::string how;  // "threads" or "MPI processes": what the tensor-parallel ranks were; "cuda:N": everything ran there
  num::Digest digest;
  LogDifference difference;  // against the baseline
  std::vector<std::string> kernels;
  std::vector<std::string> graph_kernels;  // on a GPU: the kernels of a decoding step, each once, as its graph names them
  double seconds = 0;
};

struct DigestTable {
  DigestLog baseline;
  std::vector<TableRow> rows;  // the baseline first
  PairCoverage coverage;
  std::vector<std::string> guilty_axes;  // on a difference: the axes along which a single step changes the bits
  bool holds() const;
};

using OnRow = std::function<void(const TableRow&)>;

struct TablePlan {
  RunConfig baseline;  // what all rows are compared with: the reference kernel
  Axes axes;
  int max_runs = 0;  // at most so many rows of the pairwise covering array; 0: the whole product
  engine::Plant plant = engine::Plant::kNone;
};

// Runs the baseline and the planned rows. On a difference the axes are tried one by one and those that change the bits are named.
Result<DigestTable> run_digest_table(const model::QuantizedModel& model, const Workload& workload, const TablePlan& plan, const OnRow& on_row);

// Configurations of a GPU: every linear kernel that it can run, graphs on and off, and a step along every other axis.
std::vector<RunConfig> device_configs(int device);

// Two configurations that differ along one axis only. The prefix cache is compared in chunks of 64, so that a hit moves no chunk's ends.
struct AxisPair {
  std::string axis;
  RunConfig base, varied;
};
std::vector<AxisPair> single_steps(const TablePlan& plan);

}  // namespace zeroulp::verify
