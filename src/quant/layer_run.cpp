#include "quant/layer_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "num/sincos.h"

namespace zeroulp::quant {
namespace {

using model::LinearRole;
namespace kv_cache = ops::kv_cache;

constexpr int64_t kRowGrain = 32;
constexpr int64_t kRowsAtATime = 128;

}  // namespace

LayerRun::LayerRun(const model::ModelConfig& config, const ops::Kernels& kernels, ThreadPool& pool, int64_t tokens, int64_t window)
    : config_(config), kernels_(kernels), pool_(pool), tokens_(tokens), window_(std::min(window, tokens)) {
  for (int64_t t = 0; t < tokens; ++t) positions_.push_back(static_cast<int32_t>(t % window_));
  for (int64_t p = 0; p < window_; ++p)
    for (const float w : config.rope_frequencies) {
      const num::SinCosBf16 v = num::sincos_bf16(static_cast<uint32_t>(p), w, config.rope_attention_factor);
      cos_.push_back(v.cos), sin_.push_back(v.sin);
    }
  const auto size = [&](int64_t width) { return static_cast<size_t>(tokens * width); };
  x.resize(size(config.hidden)), attention_in.resize(x.size()), mlp_in.resize(x.size()), y_.resize(x.size());
  q_.resize(size(config.q_size())), o_in.resize(q_.size());
  keys.resize(size(config.kv_size())), v_.resize(keys.size());
  gate_.resize(size(config.intermediate)), down_in.resize(gate_.size());
}

void LayerRun::embed(std::span<const int32_t> tokens, const model::QuantizedLinear& e) {
  kernels_.embedding.run({tokens.data(), tokens_, config_.hidden, e.codes, e.scales, x.data()});
}

void LayerRun::note(const char* step, bool fault) {
  if (fault && fault_.empty()) fault_ = step;
}

Status LayerRun::take_fault(int64_t layer) {
  if (fault_.empty()) return {};
  return answer_is_no(fmt::format("calibration: layer {}, {}: a value is outside the contract's ranges, so this model cannot run under {}",
                                  layer, std::exchange(fault_, {}), model::kContract));
}

void LayerRun::norm(const uint16_t* weight, std::vector<uint16_t>& out) {
  const int64_t d = config_.hidden;
  pool_.parallel_for(tokens_, kRowGrain, [&](int64_t begin, int64_t end, int) {
    kernels_.rmsnorm.run({x.data() + begin * d, d, end - begin, d, weight, config_.rms_eps, out.data() + begin * d, d});
  });
}

void LayerRun::linear(const model::QuantizedLinear& l, const std::vector<uint16_t>& in, std::vector<uint16_t>& out, const char* step) {
  std::atomic<bool> fault = false;
  pool_.parallel_for(tokens_, kRowGrain, [&](int64_t begin, int64_t end, int) {
    std::vector<int16_t> codes(static_cast<size_t>(kRowsAtATime * l.k));
    std::vector<float> scales(kRowsAtATime);
    std::vector<uint8_t> faults(kRowsAtATime);
    for (int64_t first = begin; first < end; first += kRowsAtATime) {
      const int64_t rows = std::min(kRowsAtATime, end - first);
      kernels_.quant_rows.run({in.data() + first * l.k, l.k, rows, l.k, l.width, l.rows, nullptr, codes.data(), l.k, scales.data(),
                               faults.data()});
      kernels_.linear_s8.run({codes.data(), l.k, scales.data(), rows, l.k, l.width, l.codes, l.k, l.n, l.scales, l.bias,
                              ops::linear_s8::Output::kBf16, out.data() + first * l.n, l.n});
    }
    if (std::find(faults.begin(), faults.end(), 1) != faults.end()) fault = true;
  });
  note(step, fault);
}

void LayerRun::add_to_residual(const std::vector<uint16_t>& y) {
  pool_.parallel_for(static_cast<int64_t>(x.size()), 4096, [&](int64_t begin, int64_t end, int) {
    kernels_.residual.run({x.data() + begin, y.data() + begin, end - begin});
  });
}

void LayerRun::head_norm(std::vector<uint16_t>& v, int64_t heads, const uint16_t* weights) {
  const int64_t d = config_.head_dim, stride = heads * d;
  pool_.parallel_for(tokens_, kRowGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = 0; head < heads; ++head) {
      uint16_t* at = v.data() + begin * stride + head * d;
      kernels_.rmsnorm.run({at, stride, end - begin, d, weights + head * d, config_.rms_eps, at, stride});
    }
  });
}

void LayerRun::rope(std::vector<uint16_t>& v, int64_t heads) {
  const int64_t d = config_.head_dim, stride = heads * d;
  pool_.parallel_for(tokens_, kRowGrain, [&](int64_t begin, int64_t end, int) {
    kernels_.rope.run({v.data() + begin * stride, stride, end - begin, heads, d, positions_.data() + begin, cos_.data(), sin_.data()});
  });
}

void LayerRun::attention_norm(const model::QuantizedLayer& layer) { norm(layer.input_norm, attention_in); }

void LayerRun::attention(const model::QuantizedLayer& layer, int64_t i) {
  linear(layer[LinearRole::kQ], attention_in, q_, "input of q");
  linear(layer[LinearRole::kK], attention_in, keys, "input of k");
  linear(layer[LinearRole::kV], attention_in, v_, "input of v");
  if (config_.qk_norm) {
    head_norm(q_, config_.heads, layer.q_norm);
    head_norm(keys, config_.kv_heads, layer.k_norm);
  }
  rope(q_, config_.heads);
  rope(keys, config_.kv_heads);
  std::atomic<bool> fault = false;
  const int64_t windows = (tokens_ + window_ - 1) / window_;
  pool_.parallel_for(windows * config_.kv_heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task / config_.kv_heads * window_;
      if (!attend(layer, i, first, std::min(window_, tokens_ - first), task % config_.kv_heads)) fault = true;
    }
  });
  note("attention", fault);
}

// One window, one KV head and its query heads. False on a range error.
bool LayerRun::attend(const model::QuantizedLayer& layer, int64_t i, int64_t first, int64_t rows, int64_t kv_head) {
  const int64_t d = config_.head_dim, group = config_.heads / config_.kv_heads, kv_size = config_.kv_size(), q_size = config_.q_size();
  const kv_cache::Layout layout{d, layer.key_width};
  const int64_t blocks = (rows + kv_cache::kBlock - 1) / kv_cache::kBlock;
  std::vector<std::byte> cache(static_cast<size_t>(blocks * layout.bytes()));
  std::vector<const std::byte*> pages;
  for (int64_t b = 0; b < blocks; ++b) pages.push_back(cache.data() + b * layout.bytes());
  bool good = true;
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* block = cache.data() + r / kv_cache::kBlock * layout.bytes();
    const int64_t at = (first + r) * kv_size + kv_head * d;
    good &= kv_cache::store(block, layout, r % kv_cache::kBlock, keys.data() + at, v_.data() + at);
  }
  std::vector<int16_t> codes(static_cast<size_t>(rows * group * d));
  std::vector<float> scales(static_cast<size_t>(rows * group));
  std::vector<uint8_t> faults(static_cast<size_t>(rows * group));
  for (int64_t r = 0; r < rows; ++r)
    kernels_.quant_rows.run({q_.data() + (first + r) * q_size + kv_head * group * d, d, group, d, 15, num::kAttentionRange, nullptr,
                             codes.data() + r * group * d, d, scales.data() + r * group, faults.data() + r * group});
  ops::attention::Args a{};
  a.layout = layout;
  a.rows = rows, a.group = group;
  a.window = config_.window[static_cast<size_t>(i)].value_or(0);
  a.score_constant = ops::attention::score_constant(d, layer.key_width);
  a.q = codes.data(), a.q_stride = group * d;
  a.q_scales = scales.data(), a.q_scales_stride = group;
  a.pages = pages.data();
  a.out = o_in.data() + first * q_size + kv_head * group * d, a.out_stride = q_size;
  a.faults = faults.data();
  kernels_.attention.run(a);
  return good && std::find(faults.begin(), faults.end(), 1) == faults.end();
}

void LayerRun::attention_out(const model::QuantizedLayer& layer) {
  linear(layer[LinearRole::kO], o_in, y_, "input of o");
  add_to_residual(y_);
}

void LayerRun::mlp_norm(const model::QuantizedLayer& layer) { norm(layer.post_norm, mlp_in); }

void LayerRun::mlp(const model::QuantizedLayer& layer) {
  linear(layer[LinearRole::kGate], mlp_in, gate_, "input of gate");
  linear(layer[LinearRole::kUp], mlp_in, down_in, "input of up");
  pool_.parallel_for(static_cast<int64_t>(gate_.size()), 4096, [&](int64_t begin, int64_t end, int) {
    kernels_.silu_mul.run({gate_.data() + begin, down_in.data() + begin, end - begin, down_in.data() + begin});
  });
}

void LayerRun::mlp_out(const model::QuantizedLayer& layer) {
  linear(layer[LinearRole::kDown], down_in, y_, "input of down");
  add_to_residual(y_);
}

void LayerRun::whole_layer(const model::QuantizedLayer& layer, int64_t i) {
  attention_norm(layer);
  attention(layer, i);
  attention_out(layer);
  mlp_norm(layer);
  mlp(layer);
  mlp_out(layer);
}

}  // namespace zeroulp::quant
