#include "model/seeded.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "num/bf16.h"
#include "num/philox.h"

namespace zeroulp::model {
namespace {

constexpr int64_t kDistinctRows = 4096;  // of a linear, when layers repeat

class Builder {
 public:
  Builder(const SeededShape& shape, uint64_t seed) : shape_(shape), seed_(seed) {}

  // Channel scales so that outputs are of order `gain` for inputs of order one: codes have a deviation of about 60, so 1/(60 sqrt(k)).
  void linear(const std::string& name, int64_t n, int64_t k, bool bias, float gain = 1.0f) {
    num::PhiloxStream random(seed_, stream_++);
    std::vector<int8_t> codes(static_cast<size_t>(n * k));
    // The sum of two uniform numbers: a bell that reaches the ends, -127 and 127.
    const int64_t drawn = shape_.distinct_layers > 0 ? std::min(n, kDistinctRows) * k : n * k;
    for (int64_t i = 0; i < drawn; ++i) {
      const uint32_t bits = random.next();
      codes[static_cast<size_t>(i)] = static_cast<int8_t>(static_cast<int>((bits & 127) + ((bits >> 7) & 127)) - 127);
    }
    for (int64_t i = drawn; i < n * k; i += drawn) std::copy_n(codes.begin(), std::min(drawn, n * k - i), codes.begin() + i);
    const int half_log = std::bit_width(static_cast<uint64_t>(k)) / 2;
    std::vector<float> scales(static_cast<size_t>(n)), biases(static_cast<size_t>(n));
    for (float& s : scales) {
      s = gain * num::pow2(-6 - half_log);
      if (shape_.po2_scales)
        s *= num::pow2(static_cast<int>(random.below(3)) - 1);
      else
        s *= 1.0f + 0.5f * random.symmetric();
    }
    for (float& b : biases) b = num::bf16_to_float(num::float_to_bf16(0.25f * random.symmetric()));
    tensors[name + ".codes"] = make_tensor(Dtype::kI8, {n, k}, codes);
    tensors[name + ".scales"] = make_tensor(Dtype::kF32, {n}, scales);
    if (bias) tensors[name + ".bias"] = make_tensor(Dtype::kF32, {n}, biases);
  }

  void norm(const std::string& name, std::vector<int64_t> dims) {
    num::PhiloxStream random(seed_, stream_++);
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    std::vector<uint16_t> weights(static_cast<size_t>(count));
    for (uint16_t& w : weights) w = num::float_to_bf16(1.0f + 0.5f * random.symmetric());
    tensors[name] = make_tensor(Dtype::kBF16, std::move(dims), weights);
  }

  // Gives layer `to` the tensors and widths of layer `from`. Returns the index of the linear behind it.
  int64_t repeat(const std::string& to, const std::string& from, std::map<std::string, int>& widths, int64_t index) {
    TensorMap more;
    for (const auto& [name, tensor] : tensors)
      if (name.starts_with(from)) more[to + name.substr(from.size())] = tensor;
    tensors.merge(more);
    for (const std::string_view linear : kLinearNames) widths[to + std::string(linear)] = widths[from + std::string(linear)];
    return index + kLinearsPerLayer;
  }

  TensorMap tensors;

 private:
  const SeededShape& shape_;
  uint64_t seed_, stream_ = 0;
};

ModelConfig seeded_config(const SeededShape& s) {
  ModelConfig c;
  c.architecture = s.architecture;
  c.hidden = s.hidden, c.intermediate = s.intermediate, c.layers = s.layers, c.heads = s.heads, c.kv_heads = s.kv_heads;
  c.head_dim = s.head_dim, c.vocab = s.vocab, c.max_positions = s.max_positions, c.rms_eps = 1e-5f;
  c.qkv_bias = s.architecture == "qwen2";
  c.qk_norm = s.architecture == "qwen3";
  c.tied_head = s.tied_head;
  float w = 1.0f;
  for (int64_t i = 0; i < s.head_dim / 2; ++i, w *= 0.7f) c.rope_frequencies.push_back(w);
  for (int64_t layer = 0; layer < s.layers; ++layer)
    c.window.push_back(s.window > 0 && layer % 2 == 1 ? std::optional(s.window) : std::nullopt);
  c.stop_tokens = {0};
  return c;
}

}  // namespace

QuantizedModel make_seeded(const SeededShape& s, uint64_t seed) {
  QuantizedHeader header;
  header.config = seeded_config(s);
  header.profile = "seeded";
  header.pow2_row_scales = s.pow2_row_scales;
  header.recipe = std::make_shared<io::Json>(io::Json{{"seed", seed}});
  const ModelConfig& c = header.config;
  Builder b(s, seed);
  b.linear("embed", c.vocab, c.hidden, false, 4.0f);
  if (!c.tied_head) b.linear("head", c.vocab, c.hidden, false);
  b.norm("final_norm", {c.hidden});
  const auto width_of = [](int width, int64_t i) { return width != 0 ? width : i % 2 == 0 ? 15 : 8; };
  header.linear_widths["head"] = width_of(s.width, 0);
  int64_t index = 1;
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    header.key_widths.push_back(width_of(s.key_width, layer));
    if (s.distinct_layers > 0 && layer >= s.distinct_layers) {
      index = b.repeat(prefix, fmt::format("layers.{}.", layer % s.distinct_layers), header.linear_widths, index);
      continue;
    }
    b.norm(prefix + "input_norm", {c.hidden});
    b.norm(prefix + "post_norm", {c.hidden});
    if (c.qk_norm) {
      b.norm(prefix + "q_norm", {c.heads, c.head_dim});
      b.norm(prefix + "k_norm", {c.kv_heads, c.head_dim});
    }
    for (int r = 0; r < kLinearsPerLayer; ++r, ++index) {
      const auto role = static_cast<LinearRole>(r);
      const LinearShape shape = linear_shape(c, role);
      const std::string name = prefix + std::string(kLinearNames[r]);
      b.linear(name, shape.n, shape.k, c.qkv_bias && role <= LinearRole::kV);
      header.linear_widths[name] = width_of(s.width, index);
    }
  }
  auto model = QuantizedModel::assemble(std::move(header), std::move(b.tensors), "seeded model");
  ZU_CHECK(model.has_value());
  return *std::move(model);
}

}  // namespace zeroulp::model
