#include <algorithm>
#include <cmath>

#include "ops/argmax/reference.h"
#include "ops/sample/contract.h"

namespace zeroulp::ops::sample {
namespace {

__extension__ using u128 = unsigned __int128;

// The shortest prefix of `order` whose weight reaches top_p of the whole.
size_t top_p_length(const std::vector<int32_t>& order, size_t kept, const std::vector<uint64_t>& weights, double top_p) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kept; ++i) sum += weights[static_cast<size_t>(order[i])];
  const auto p16 = static_cast<uint64_t>(std::nearbyint(65536.0 * top_p));
  uint64_t cumulative = 0;
  for (size_t i = 0; i < kept; ++i) {
    cumulative += weights[static_cast<size_t>(order[i])];
    if (static_cast<u128>(cumulative) * 65536 >= static_cast<u128>(p16) * sum) return i + 1;
  }
  return kept;
}

}  // namespace

Sampler::Sampler(int64_t vocabulary) : weights_(static_cast<size_t>(vocabulary)), order_(static_cast<size_t>(vocabulary)) {}

int64_t Sampler::draw(const float* logits, int64_t count, const Settings& s, uint32_t position, uint64_t request) {
  argmax::Args best{logits, count};
  argmax::reference(best);
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
  const auto mark = static_cast<uint64_t>((static_cast<u128>(random_bits(s, position, request)) * sum) >> 64);
  uint64_t cumulative = 0;
  for (size_t i = 0; i < kept; ++i) {
    cumulative += weights_[static_cast<size_t>(order_[i])];
    if (cumulative > mark) return order_[i];
  }
  return best.index;  // not reached: mark < sum
}

}  // namespace zeroulp::ops::sample
