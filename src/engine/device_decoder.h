// One rank of the integer decoder on a GPU: weights, KV cache and logits stay there; a decoding step is one graph.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/decoder.h"
#include "ops/sample/contract.h"

namespace zeroulp::engine {

// What the engine asks of a rank on a GPU beyond RankDecoder.
class DeviceDecoder : public RankDecoder {
 public:
  struct Options {
    int device = 0;
    int64_t max_rows = 512;
    int64_t max_context = 4096;
    int64_t pages = 64;
    bool own_gpu = false;  // every rank has one: they exchange by NCCL
    bool graphs = true;  // decoding steps as graphs; otherwise every kernel is launched by itself
  };
  // Uploads this rank's weights and reserves all memory; what does not fit gives exit code 4 with the numbers. A build without CUDA always
  // does. The model must outlive the decoder.
  static Result<std::unique_ptr<DeviceDecoder>> create(const model::QuantizedModel& model, const ops::DeviceKernels& kernels, Exchange* exchange,
                                                       const Options& options);

  // Tokens for wanted rows [first, first + count) of the last plan, chosen on the GPU from logits that do not leave it; draws[i] belongs to
  // row first + i. -1 when a logit is NaN or infinite. One rank only.
  struct Draw {
    ops::sample::Settings settings;
    uint32_t position;
    uint64_t request;
  };
  virtual Result<std::vector<int64_t>> draw(const Plan& plan, int64_t first, std::span<const Draw> draws) = 0;

  // The nodes of the graph that ran last, kernels by name; empty when none has run.
  virtual const std::vector<std::string>& graph_nodes() const = 0;
  // The last graph's time per replay in milliseconds, `repeats` replays in a row: KV entries are written again with the same values.
  virtual Result<double> replay_milliseconds(int repeats) = 0;
  // Bytes of weights that a decoding step reads.
  virtual int64_t weight_bytes() const = 0;
};

}  // namespace zeroulp::engine
