// A rank's part of a quantised model in GPU memory. Linears that read the same input at the same width are joined, so that one launch
// computes them; inputs are padded to 16 elements with zero weights, so that kernels may read whole vectors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "engine/exchange.h"
#include "model/quantized_model.h"

namespace zeroulp::engine {

// GPU memory by the piece; freed together.
class DeviceArena {
 public:
  template <class T>
  Result<T*> allocate(int64_t count, std::string_view what) {
    ZU_TRY_ASSIGN(const int64_t bytes, device::checked_bytes(count, static_cast<int64_t>(sizeof(T)), what));
    ZU_TRY_ASSIGN(device::Buffer buffer, device::Buffer::allocate(bytes, what));
    buffers_.push_back(std::move(buffer));
    bytes_ += bytes;
    return buffers_.back().as<T>();
  }
  template <class T>
  Result<T*> upload(const device::Stream& stream, const T* from, int64_t count, std::string_view what) {
    ZU_TRY_ASSIGN(auto* to, (allocate<std::remove_const_t<T>>(count, what)));
    stream.to_device(to, from, count * static_cast<int64_t>(sizeof(T)));
    return static_cast<T*>(to);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<device::Buffer> buffers_;
  int64_t bytes_ = 0;
};

constexpr int64_t padded(int64_t k) { return (k + 15) / 16 * 16; }

// codes [n, k], row stride k; k is padded.
struct DeviceLinear {
  int64_t n = 0, k = 0;
  int width = 15;
  const int8_t* codes = nullptr;
  const float* scales = nullptr;
  const float* bias = nullptr;
  int64_t first_output = 0;  // column of the first output in the joined output row
};
// Linears with one input: as many parts as there are runs of equal width.
struct DeviceGroup {
  std::vector<DeviceLinear> parts;
  int64_t n = 0;
};

struct DeviceLayer {
  DeviceGroup qkv, gate_up;
  DeviceLinear o, down;
  const uint16_t *input_norm = nullptr, *post_norm = nullptr, *q_norm = nullptr, *k_norm = nullptr;
};

// This rank's query heads, KV heads, MLP channels and vocabulary.
struct RankParts {
  Part heads, kv, inner, vocab;
};

struct DeviceWeights {
  std::vector<DeviceLayer> layers;
  const int8_t* embedding = nullptr;
  const float* embedding_scales = nullptr;
  DeviceLinear head;
  const uint16_t* final_norm = nullptr;

  static Result<DeviceWeights> upload(const model::QuantizedModel& model, const RankParts& parts, const device::Stream& stream, DeviceArena& arena);
  // Of all linears: what a decoding step reads.
  int64_t linear_bytes() const;
};

}  // namespace zeroulp::engine
