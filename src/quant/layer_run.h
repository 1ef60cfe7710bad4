// One layer after another over all calibration tokens, under the contract's arithmetic: the same bits on every machine, with the inputs
// of every linear left where they can be looked at before the linear is chosen.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "model/quantized_model.h"
#include "ops/kernels.h"

namespace zeroulp::quant {

class LayerRun {
 public:
  // Tokens see those before them in their window of `window` tokens; the last window may be shorter. All references must outlive this.
  LayerRun(const model::ModelConfig& config, const ops::Kernels& kernels, ThreadPool& pool, int64_t tokens, int64_t window);

  void embed(std::span<const int32_t> tokens, const model::QuantizedLinear& embedding);

  // The steps of a layer, to be called in this order. `layer` needs what the step uses, no more.
  void attention_norm(const model::QuantizedLayer& layer);       // leaves attention_in
  void attention(const model::QuantizedLayer& layer, int64_t i);  // q, k, v to o_in; i: the layer's number
  void attention_out(const model::QuantizedLayer& layer);
  void mlp_norm(const model::QuantizedLayer& layer);  // leaves mlp_in
  void mlp(const model::QuantizedLayer& layer);       // gate, up to down_in
  void mlp_out(const model::QuantizedLayer& layer);
  void whole_layer(const model::QuantizedLayer& layer, int64_t i);

  // A value outside the contract's ranges since the last call, with the step that met it.
  Status take_fault(int64_t layer);

  // bf16 [tokens, width of the thing].
  std::vector<uint16_t> x;             // the residual stream
  std::vector<uint16_t> attention_in;  // input of q, k, v
  std::vector<uint16_t> o_in, mlp_in, down_in;
  std::vector<uint16_t> keys;  // after RoPE, [tokens, kv_heads, head_dim]

  int64_t tokens() const { return tokens_; }

 private:
  void norm(const uint16_t* weight, std::vector<uint16_t>& out);
  void linear(const model::QuantizedLinear& linear, const std::vector<uint16_t>& in, std::vector<uint16_t>& out, const char* step);
  void add_to_residual(const std::vector<uint16_t>& y);
  void head_norm(std::vector<uint16_t>& heads_of_rows, int64_t heads, const uint16_t* weights);
  void rope(std::vector<uint16_t>& heads_of_rows, int64_t heads);
  bool attend(const model::QuantizedLayer& layer, int64_t i, int64_t first, int64_t rows, int64_t kv_head);
  void note(const char* step, bool fault);

  const model::ModelConfig& config_;
  const ops::Kernels& kernels_;
  ThreadPool& pool_;
  int64_t tokens_, window_;
  std::vector<int32_t> positions_;
  std::vector<uint16_t> cos_, sin_;
  std::vector<uint16_t> q_, v_, y_, gate_;
  std::string fault_;
};

}  // namespace zeroulp::quant
