// Causal attention of the float reference path over cached keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/threads.h"
#include "engine/float_kernels.h"
#include "engine/sgemm.h"

namespace zeroulp::engine {

// Keys and values of one layer, as sgemm wants them: per KV head, keys with positions as columns, values with dimensions as columns.
class FloatCache {
 public:
  FloatCache() = default;
  FloatCache(int64_t kv_heads, int64_t head_dim, int64_t capacity);

  void store(int64_t kv_head, int64_t position, const float* key, const float* value);
  Panels keys(int64_t kv_head, int64_t first, int64_t last) const;    // first: a multiple of 256
  Panels values(int64_t kv_head, int64_t first, int64_t last) const;

 private:
  int64_t head_dim_ = 0, capacity_ = 0;
  std::vector<float> keys_, values_;
};

struct FloatAttention {
  int64_t heads, kv_heads, head_dim;
  std::optional<int64_t> window;  // keys visible to position i start at max(0, i - window + 1)
  Softmax softmax;
  Rounding rounding;

  // Queries of positions [first, first + rows), head h of row i at q + i * q_stride + h * head_dim; keys up to the last of them are in the
  // cache. out: [rows, heads * head_dim].
  void run(ThreadPool& pool, const float* q, int64_t q_stride, int64_t first, int64_t rows, const FloatCache& cache, float* out) const;
};

}  // namespace zeroulp::engine
