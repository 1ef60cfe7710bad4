#include "engine/float_attention.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace zeroulp::engine {
namespace {

constexpr int64_t kQueryRows = 8 * kTileRows;  // of one task
constexpr int64_t kLeastWork = 1 << 17;        // products of a thread's part

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

struct Scratch {
  PackedRows packed;
  std::vector<float> scores, divisors;
};

// Queries [begin, end) of one head.
void attend(const FloatAttention& a, const float* q, int64_t q_stride, int64_t first, int64_t begin, int64_t end, int64_t head,
            const FloatCache& cache, float* out, Scratch& s) {
  const int64_t rows = end - begin, d = a.head_dim, kv_head = head / (a.heads / a.kv_heads);
  const auto first_visible = [&](int64_t position) { return a.window ? std::max<int64_t>(0, position - *a.window + 1) : 0; };
  // From a whole block of sgemm's, so that sums over keys are cut at the same positions whatever the chunk.
  const int64_t origin = first_visible(first + begin) / kBlockK * kBlockK, visible = first + end - origin;
  s.scores.resize(static_cast<size_t>(rows * visible));
  s.divisors.resize(static_cast<size_t>(rows));
  s.packed.pack(q + begin * q_stride + head * d, rows, d, q_stride);
  const Panels keys = cache.keys(kv_head, origin, first + end);
  sgemm(s.packed, keys, 0, round_up(visible, kPanelColumns) / kPanelColumns, s.scores.data(), visible);
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t position = first + begin + r;
    s.divisors[static_cast<size_t>(r)] = softmax_row(s.scores.data() + r * visible, first_visible(position) - origin, position + 1 - origin,
                                                     visible, scale, a.softmax, a.rounding);
  }
  s.packed.pack(s.scores.data(), rows, visible, visible);
  const int64_t out_stride = a.heads * d;
  float* to = out + begin * out_stride + head * d;
  sgemm(s.packed, cache.values(kv_head, origin, first + end), 0, round_up(d, kPanelColumns) / kPanelColumns, to, out_stride);
  for (int64_t r = 0; r < rows; ++r) divide_row(to + r * out_stride, s.divisors[static_cast<size_t>(r)], d, a.rounding);
}

}  // namespace

FloatCache::FloatCache(int64_t kv_heads, int64_t head_dim, int64_t capacity)
    : head_dim_(head_dim),
      capacity_(round_up(capacity, kPanelColumns)),
      keys_(static_cast<size_t>(kv_heads * capacity_ * head_dim)),
      values_(static_cast<size_t>(kv_heads * capacity_ * round_up(head_dim, kPanelColumns))) {}

void FloatCache::store(int64_t kv_head, int64_t position, const float* key, const float* value) {
  ZU_CHECK(position >= 0 && position < capacity_);
  float* k = keys_.data() + kv_head * capacity_ * head_dim_ + position / kPanelColumns * head_dim_ * kPanelColumns + position % kPanelColumns;
  for (int64_t i = 0; i < head_dim_; ++i) k[i * kPanelColumns] = key[i];
  float* v = values_.data() + kv_head * capacity_ * round_up(head_dim_, kPanelColumns) + position * kPanelColumns;
  for (int64_t i = 0; i < head_dim_; ++i) v[i / kPanelColumns * capacity_ * kPanelColumns + i % kPanelColumns] = value[i];
}

Panels FloatCache::keys(int64_t kv_head, int64_t first, int64_t last) const {
  const float* base = keys_.data() + kv_head * capacity_ * head_dim_ + first * head_dim_;
  return {nullptr, base, head_dim_ * kPanelColumns, last - first, head_dim_};
}

Panels FloatCache::values(int64_t kv_head, int64_t first, int64_t last) const {
  const float* base = values_.data() + kv_head * capacity_ * round_up(head_dim_, kPanelColumns) + first * kPanelColumns;
  return {nullptr, base, capacity_ * kPanelColumns, head_dim_, last - first};
}

void FloatAttention::run(ThreadPool& pool, const float* q, int64_t q_stride, int64_t first, int64_t rows, const FloatCache& cache,
                         float* out) const {
  const int64_t blocks = round_up(rows, kQueryRows) / kQueryRows;
  // A part too small to be worth waking a thread for goes to another.
  const int64_t work = std::min(rows, kQueryRows) * (first + rows) * head_dim;
  pool.parallel_for(heads * blocks, std::max<int64_t>(1, kLeastWork / work), [&](int64_t begin, int64_t end, int) {
    Scratch scratch;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t from = task % blocks * kQueryRows;
      attend(*this, q, q_stride, first, from, std::min(rows, from + kQueryRows), task / blocks, cache, out, scratch);
    }
  });
}

}  // namespace zeroulp::engine
