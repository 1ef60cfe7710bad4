// Lossless smoothing: channels of a linear's input become smaller by powers of two and its weights larger by the same, folded into what
// comes before. Every folded number is proved exact, so no bit of the float model's outputs changes.
//
//   q, k, v    input_norm by 2^-s, their columns by 2^s
//   gate, up   post_norm by 2^-s, their columns by 2^s
//   down       rows of up by 2^-s, columns of down by 2^s
//   o          rows and bias of v by 2^-s, columns of o by 2^s: one s per KV channel for all query heads that read it
//   keys       rows and bias of k by 2^-s, of q by 2^s: one s per rotary pair and KV head; with QK-norm the norms' weights instead
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "quant/layer_weights.h"

namespace zeroulp::quant {

inline constexpr int kMaxShift = 20;

// Exponents s per channel; an empty vector leaves its linears alone.
struct Shifts {
  std::vector<int> qkv;   // [hidden]
  std::vector<int> mlp;   // [hidden]
  std::vector<int> down;  // [intermediate]
  std::vector<int> o;     // [kv_heads * head_dim]
  std::vector<int> keys;  // [kv_heads * head_dim / 2]
};

// Largest magnitudes on calibration inputs, per channel.
struct ChannelMaxima {
  std::vector<float> attention_in, mlp_in, down_in, o_in;
  std::vector<float> keys;  // after RoPE, [kv_heads * head_dim]
};

// log2(value) * 2^24, truncated: integer arithmetic, the same everywhere. value: finite, above zero, normal.
int64_t log2_q24(float value);

// Linears' inputs: s = round(alpha * log2(largest input) - (1 - alpha) * log2(largest weight)), within kMaxShift.
void choose_input_shifts(Shifts& shifts, const model::ModelConfig& config, const FloatLayer& layer, const ChannelMaxima& maxima, double alpha);

// Keys: s = round(log2(larger maximum of the pair / the head's median pair)), within [-3, 6].
void choose_key_shifts(Shifts& shifts, const model::ModelConfig& config, const ChannelMaxima& maxima);

// Sets every s to 0 that would take some number out of the normal range; returns how many.
int64_t keep_exact(Shifts& shifts, const model::ModelConfig& config, const FloatLayer& layer);

// Folds the shifts in. A number that would not stay exact is refused, naming tensor and channel.
Status fold(FloatLayer& layer, const model::ModelConfig& config, const Shifts& shifts);

}  // namespace zeroulp::quant
