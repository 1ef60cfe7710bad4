// What one warp does with one head of q, k and v before attention: norm where there is one, rope; a KV head also goes to the cache.
#pragma once

#include "ops/fused/fused.h"
#include "ops/kv_cache/store.cuh"
#include "ops/launch.cuh"
#include "ops/rmsnorm/contract.h"
#include "ops/rope/contract.h"

namespace zeroulp::ops::fused {

// A warp's share of RMSNorm of one head in shared memory, in place.
__device__ inline void norm_head(uint16_t* x, int64_t d, const uint16_t* weight, float eps) {
  const int lane = threadIdx.x % 32;
  int32_t top = 1;
  for (int64_t i = lane; i < d; i += 32) top = max(top, rmsnorm::exponent_of(x[i]));
  top = warp_max(top);
  int64_t sum = 0;
  for (int64_t i = lane; i < d; i += 32) sum += rmsnorm::square_term(x[i], top);
  const float r = rmsnorm::reciprocal_rms(warp_sum(sum), top, d, eps);
  for (int64_t i = lane; i < d; i += 32) x[i] = rmsnorm::scaled(x[i], r, weight[i]);
  __syncwarp();
}

__device__ inline void rotate_head(uint16_t* x, int64_t half, const uint16_t* cos, const uint16_t* sin) {
  for (int64_t i = threadIdx.x % 32; i < half; i += 32) {
    const rope::Pair y = rope::rotate(x[i], x[i + half], cos[i], sin[i]);
    x[i] = y.first;
    x[i + half] = y.second;
  }
  __syncwarp();
}

// Head `head` of a row: query heads first, then KV heads. Position, address, table and norm weights are read by the constructor, which may run before
// the kernel ahead has made the vectors (ops/early.cuh). memory: kVectors vectors of d in shared memory.
class HeadWarp {
 public:
  static constexpr int kVectors = 4;
  __device__ HeadWarp(const Heads& a, int64_t row, int64_t head, uint16_t* memory)
      : a_(a), row_(row), head_(head), query_(head < a.heads), position_(a.positions[row]), x_(memory), v_(x_ + a.d), weight_(v_ + a.d), cos_(weight_ + a.d),
        sin_(cos_ + a.d / 2) {
    const int64_t kv_head = head - a.heads, half = a.d / 2;
    norm_ = query_ ? (a.q_norm ? a.q_norm + head * a.d : nullptr) : (a.k_norm ? a.k_norm + kv_head * a.d : nullptr);
    for (int64_t i = threadIdx.x % 32; i < a.d; i += 32) {
      if (norm_ != nullptr) weight_[i] = norm_[i];
      if (i < half) cos_[i] = a.cos[position_ * half + i], sin_[i] = a.sin[position_ * half + i];
    }
    block_ = query_ ? nullptr : a.pages.block(row, position_ / kv_cache::kBlock, kv_head);
  }
  // Leaves the normed and rotated query or key in vector(), which the whole warp may read.
  __device__ void rotate() {
    const uint16_t* const from = a_.qkv + row_ * a_.stride + head_ * a_.d;  // keys follow the queries, values the keys
    for (int64_t i = threadIdx.x % 32; i < a_.d; i += 32) {
      x_[i] = from[i];
      if (!query_) v_[i] = from[a_.kv_heads * a_.d + i];
    }
    __syncwarp();
    if (norm_ != nullptr) norm_head(x_, a_.d, weight_, a_.eps);
    rotate_head(x_, a_.d / 2, cos_, sin_);
  }
  __device__ const uint16_t* vector() const { return x_; }
  // A KV head's key and value go to the cache.
  __device__ void store() {
    const kv_cache::View<std::byte> view(block_, a_.layout);
    if (!kv_cache::store_warp(view, a_.layout, position_ % kv_cache::kBlock, x_, v_) && threadIdx.x % 32 == 0) a_.kv_faults[row_] = 1;
  }

 private:
  const Heads& a_;
  const int64_t row_, head_;
  const bool query_;
  const int64_t position_;
  uint16_t *const x_, *const v_, *const weight_, *const cos_, *const sin_;
  const uint16_t* norm_;
  std::byte* block_;
};

}  // namespace zeroulp::ops::fused
