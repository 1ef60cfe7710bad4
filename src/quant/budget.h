// Which linears may take 8-bit inputs: chosen by the divergence from the float model that is measured when they do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/json.h"
#include "model/checkpoint.h"
#include "model/quantized_model.h"

namespace zeroulp::quant {

struct BudgetJob {
  double budget = 0;  // largest mean KL(float model || integer model) per token, in nats
  std::span<const int32_t> tokens;
  int64_t window = 1024;
  int threads = 1;
  std::function<void(int64_t done, int64_t total)> progress;  // measurements
};

struct WidthChoice {
  std::map<std::string, int> widths;  // of every linear
  io::Json measured;                  // for the recipe
};

// Linears that change width together: one role in a third of the layers, or the head.
struct WidthGroup {
  std::string name;                 // "q_proj of layers 0 to 9"
  std::vector<std::string> linears;
  int64_t multiply_adds = 0;        // per token
};
std::vector<WidthGroup> width_groups(const model::ModelConfig& config);

// `header` and `tensors`: the model with every linear at 15 bits. Each group's own rise in divergence is measured first; then the groups
// that cost least per multiply-add go to 8 bits together, as many as the measured budget bears; one too dear does not keep out those behind it. A budget below what 15 bits give is
// refused with exit code 1.
Result<WidthChoice> choose_widths(const model::Checkpoint& checkpoint, const model::QuantizedHeader& header, const model::TensorMap& tensors,
                                  const BudgetJob& job);

// The choice alone, with `measure(groups at 8 bits)` for the divergence: tests give their own.
using Measure = std::function<Result<double>(const std::vector<size_t>& narrow)>;
struct GroupChoice {
  std::vector<size_t> narrow;     // ascending
  double wide_kl = 0, kl = 0;     // with no group narrow, and with these
  std::vector<double> rises;      // of each group alone
  int64_t measurements = 0;
};
Result<GroupChoice> choose_groups(const std::vector<WidthGroup>& groups, double budget, const Measure& measure);

}  // namespace zeroulp::quant
