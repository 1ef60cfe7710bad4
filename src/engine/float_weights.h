// The float decoder's weights in memory: linears that share an input are one matrix.
#pragma once

#include <vector>

#include "engine/float_decoder.h"

namespace zeroulp::engine {

struct FloatLayer {
  PackedMatrix qkv, o, gate_up, down;
  std::vector<float> qkv_bias;  // empty: none
  std::vector<float> input_norm, post_norm;
  std::vector<float> q_norm, k_norm;  // one row per head; empty: none
};

struct FloatModel {
  std::vector<FloatLayer> layers;
  PackedMatrix embedding;  // empty when tied: the head's rows
  PackedMatrix head;
  std::vector<float> final_norm;

  static Result<FloatModel> load(const model::ModelConfig& config, const FloatWeights& weights, FloatDecoder::Mode mode, ThreadPool& pool);
};

}  // namespace zeroulp::engine
