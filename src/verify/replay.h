// A recorded run, computed again here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "verify/run_log.h"
#include "verify/signature.h"

namespace zeroulp::verify {

// Runs log.workload and fills in `log` and `residuals`.
Status compute(const model::QuantizedModel& model, const RunConfig& config, engine::Plant plant, RunLog& log);

// Where the residual streams of two logs of one workload part first, in the order of computing, before any token is another.
struct LayerDifference {
  int64_t layer, sequence, position;
  bool after_mlp;  // else after the layer's attention
  Likely likely;   // from which of the sequence's rows differ there: a log holds digests, no values
  std::string text() const;
};
std::optional<LayerDifference> first_layer_difference(const RunLog& a, const RunLog& b);

struct Replay {
  RunConfig config;  // here
  std::vector<std::string> kernels;
  LogDifference difference;       // a: the log; b: here
  std::optional<LayerDifference> first_layer;
  int64_t first_token_sequence = -1, first_token = -1;  // the first generated token that differs
  bool holds() const { return difference.holds(); }
  std::string verdict() const;
};

// Computes the log's workload again. Exit code 3 when the model or the contract is another.
Result<Replay> replay(const model::QuantizedModel& model, const RunLog& log, const RunConfig& config, engine::Plant plant);

}  // namespace zeroulp::verify
