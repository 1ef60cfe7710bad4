// What the ops of a model are given on ordinary text, kept so that one op alone can be computed again under other kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/trace.h"
#include "model/quantized_model.h"
#include "ops/kernels.h"
#include "verify/signature.h"

namespace zeroulp::verify {

// An op's output at one place, dense.
struct Output {
  std::string place;  // "layer 3, q_proj"
  Element element = Element::kBf16;
  int64_t rows = 0, width = 0;
  std::vector<std::byte> bytes;
};

// What of `op` two outputs of one place are, for features_of.
Observed observed(std::string_view op, const Output& expected, const Output& got);

class Capture {
 public:
  // Runs `tokens` as one sequence and keeps what the ops of `layers` (ascending) wrote. The model must outlive it.
  static Result<Capture> of(const model::QuantizedModel& model, const std::vector<int32_t>& tokens, const std::vector<int64_t>& layers, int threads);

  // The outputs of an op, as ops::Kernels names it (or rope_table, kv_cache), under these kernels: at each of the captured layers, each place in a
  // layer. The quantiser is seen in the linears behind it ("codes": its codes themselves), tables in the rotated rows, the cache in attention.
  std::vector<Output> outputs(std::string_view op, const ops::Kernels& kernels) const;

  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }
  const std::vector<int64_t>& layers() const { return layers_; }

 private:
  Capture(const model::QuantizedModel& model, const std::vector<int32_t>& tokens, const std::vector<int64_t>& layers)
      : model_(&model), tokens_(tokens), layers_(layers) {}
  using Rows = std::vector<uint16_t>;
  struct Layer {
    Rows before;  // the residual stream
    std::array<Rows, engine::kTraceOpNames.size()> wrote;
    const Rows& at(engine::TraceOp op) const { return wrote[static_cast<size_t>(op)]; }
  };
  void linears(const ops::Kernels& kernels, std::vector<Output>& to) const;
  Output head(const ops::Kernels& kernels) const;
  Rows normed(const ops::Kernels& kernels, const Rows& x, const uint16_t* weight, int64_t d) const;
  Rows head_normed(const ops::Kernels& kernels, const Rows& x, const uint16_t* weights, int64_t heads) const;
  Rows rotated(const ops::Kernels& kernels, const Layer& layer, size_t index, bool query) const;
  Rows attended(const ops::Kernels& kernels, const Layer& layer, size_t index) const;

  const model::QuantizedModel* model_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> layers_;
  std::vector<Layer> kept_;
  Rows embedding_, final_norm_;
};

// `count` layers spread over a model: the first, the last and what lies evenly between.
std::vector<int64_t> spread_layers(int64_t layers, int64_t count);

}  // namespace zeroulp::verify
