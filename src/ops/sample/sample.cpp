#include <algorithm>

#include "ops/argmax/reference.h"
#include "ops/sample/contract.h"

namespace zeroulp::ops::sample {
namespace {

// The shortest prefix of `order` whose weight reaches top_p of the whole.
size_t top_p_length(const std::vector<int32_t>& order, size_t kept, const std::vector<uint64_t>& weights, double top_p) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kept; ++i) sum += weights[static_cast<size_t>(order[i])];
  const uint64_t p16 = top_p_16(top_p);
  uint64_t cumulative = 0;
  for (size_t i = 0; i < kept; ++i) {
    cumulative += weights[static_cast<size_t>(order[i])];
    if (reaches_top_p(cumulative, sum, p16)) return i + 1;
  }
  return kept;
}

}  // namespace

Sampler::Sampler(int64_t vocabulary, argmax::Fn* argmax) : argmax_(argmax), weights_(static_cast<size_t>(vocabulary)), order_(static_cast<size_t>(vocabulary)) {}

int64_t Sampler::draw(const float* logits, int64_t count, const Settings& s, uint32_t position, uint64_t request) {
  argmax::Args best{logits, count};
  argmax_(best);
  if (best.index < 0 || s.temperature == 0.0f) return best.index;
  const float max = logits[best.index];
  const float factor = num::kLog2E / s.temperature;
  const auto n = static_cast<size_t>(count);
  for (size_t i = 0; i < n; ++i) {
    weights_[i] = weight(logits[i], max, factor);
    order_[i] = static_cast<int32_t>(i);
  }
  const auto better = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  size_t kept = s.top_k > 0 ? std::min(n, static_cast<size_t>(s.top_k)) : n;
  if (kept < n || s.top_p < 1.0) {
    std::partial_sort(order_.begin(), order_.begin() + static_cast<int64_t>(kept), order_.begin() + count, better);
    if (s.top_p < 1.0) kept = top_p_length(order_, kept, weights_, s.top_p);
    std::sort(order_.begin(), order_.begin() + static_cast<int64_t>(kept));
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < kept; ++i) sum += weights_[static_cast<size_t>(order_[i])];
  const uint64_t mark = draw_mark(random_bits(s, position, request), sum);
  uint64_t cumulative = 0;
  for (size_t i = 0; i < kept; ++i) {
    cumulative += weights_[static_cast<size_t>(order_[i])];
    if (cumulative > mark) return order_[i];
  }
  return best.index;  // not reached: mark < sum
}

}  // namespace zeroulp::ops::sample
