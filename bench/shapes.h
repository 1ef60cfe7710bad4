// The exact shapes of real models, for weights from a seed.
#pragma once

#include <vector>

#include "model/seeded.h"

namespace zeroulp::bench {

struct NamedShape {
  const char* name;
  model::SeededShape shape;
};

inline model::SeededShape shape(const char* architecture, int64_t hidden, int64_t inner, int64_t layers, int64_t heads, int64_t kv_heads, int64_t d,
                                int64_t vocab, bool tied) {
  model::SeededShape s;
  s.architecture = architecture;
  s.hidden = hidden, s.intermediate = inner, s.layers = layers, s.heads = heads, s.kv_heads = kv_heads, s.head_dim = d, s.vocab = vocab;
  s.max_positions = 8192;
  s.tied_head = tied;
  return s;
}

inline std::vector<NamedShape> all_shapes() {
  return {{"smollm2-135m", shape("llama", 576, 1536, 30, 9, 3, 64, 49152, true)},
          {"qwen2.5-0.5b", shape("qwen2", 896, 4864, 24, 14, 2, 64, 151936, true)},
          {"qwen3-0.6b", shape("qwen3", 1024, 3072, 28, 16, 8, 128, 151936, true)},
          {"qwen3-1.7b", shape("qwen3", 2048, 6144, 28, 16, 8, 128, 151936, true)},
          {"qwen2.5-7b", shape("qwen2", 3584, 18944, 28, 28, 4, 128, 152064, false)},
          {"qwen3-8b", shape("qwen3", 4096, 12288, 36, 32, 8, 128, 151936, false)}};
}

}  // namespace zeroulp::bench
