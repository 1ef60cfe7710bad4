// Models made from a seed: every family and odd shape, for tests and for kernels at real sizes without real weights.
#pragma once

#include <cstdint>

#include "model/quantized_model.h"

namespace zeroulp::model {

struct SeededShape {
  std::string architecture = "llama";  // decides biases and QK-norm
  int64_t hidden = 64, intermediate = 160, layers = 2, heads = 4, kv_heads = 2, head_dim = 16, vocab = 96;
  int64_t max_positions = 4096;
  bool tied_head = true;
  int width = 15;      // of every linear; 0: alternating 8 and 15
  int key_width = 15;  // 0: alternating
  bool po2_scales = false;
  bool pow2_row_scales = false;  // of activations
  int64_t window = 0;  // of every second layer; 0: none
  int64_t distinct_layers = 0;  // after so many the weights repeat, in the same memory, and so do rows
                                // of large tables: large shapes made quickly; 0: all differ
};

// Codes, scales, norms and biases from Philox: activations stay of order one through any number of layers. The same arguments give the same
// model on every machine.
QuantizedModel make_seeded(const SeededShape& shape, uint64_t seed);

}  // namespace zeroulp::model
