// Layers converted by what calibration text makes of them: smoothing by the largest inputs, codes by GPTQ.
//
// Two runs go through the model side by side, both under the contract's arithmetic, so that every bit of the outcome is the same on every
// machine. The teacher has int8 weights with free scales and 15-bit activations, as near to the float model as integers get; its inputs
// choose the smoothing. The student is the model in the making: each linear is rounded for the inputs that the finished linears before it
// really give, at the width it will have.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/threads.h"
#include "model/checkpoint.h"
#include "ops/kernels.h"
#include "quant/layer_run.h"
#include "quant/layer_weights.h"
#include "quant/options.h"
#include "quant/rounding.h"

namespace zeroulp::quant {

struct LayerCodes {
  FloatLayer floats;  // smoothed: the norms are the container's
  CodedLinear linears[model::kLinearsPerLayer];
};

// Codes by rounding to nearest.
Result<LayerCodes> round_layer(FloatLayer floats, const Options& options, int64_t layer, ThreadPool& pool);

class CalibratedRun {
 public:
  // All references must outlive this.
  CalibratedRun(const model::Checkpoint& checkpoint, const Options& options, const Calibration& calibration, const ops::Kernels& kernels,
                ThreadPool& pool);

  // `embedding`: as the container has it.
  Status start(const model::QuantizedLinear& embedding);
  // Layer by layer, in order.
  Result<LayerCodes> convert(int64_t layer);

  // What the next layer needs, to go on another day.
  model::TensorMap state() const;
  Status restore(const model::TensorMap& state);

 private:
  Status run_teacher(const FloatLayer& floats, int64_t layer);
  Status smooth(FloatLayer& floats) const;
  Status round_by_student(LayerCodes& codes, int64_t layer);
  Status round_group(LayerCodes& codes, std::initializer_list<model::LinearRole> roles, const std::vector<uint16_t>& inputs, int64_t layer);
  model::QuantizedLayer view(const LayerCodes& codes, int64_t layer) const;

  const model::Checkpoint& checkpoint_;
  const model::ModelConfig& config_;
  const Options& options_;
  const Calibration& calibration_;
  const ops::Kernels& kernels_;
  ThreadPool& pool_;
  const std::map<std::string, int> widths_;
  const num::RowRange row_range_;
  LayerRun teacher_;
  std::optional<LayerRun> student_;
};

}  // namespace zeroulp::quant
