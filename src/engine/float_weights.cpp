#include "engine/float_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/interrupt.h"
#include "model/tensor_names.h"

namespace zeroulp::engine {
namespace {

using model::layer_tensor_name;

class Loader {
 public:
  Loader(const model::ModelConfig& config, const FloatWeights& weights, FloatDecoder::Mode mode, ThreadPool& pool)
      : config_(config), weights_(weights), bf16_(mode == FloatDecoder::Mode::kBf16), pool_(pool) {}

  Status layer(int64_t index, FloatLayer& out) {
    const auto name = [&](const char* part) { return layer_tensor_name(index, part); };
    const int64_t q = config_.q_size(), kv = config_.kv_size(), hidden = config_.hidden, inner = config_.intermediate;
    out.qkv = PackedMatrix(q + 2 * kv, hidden, keeps_bf16());
    ZU_TRY(matrix(name("self_attn.q_proj.weight"), out.qkv, 0, q));
    ZU_TRY(matrix(name("self_attn.k_proj.weight"), out.qkv, q, kv));
    ZU_TRY(matrix(name("self_attn.v_proj.weight"), out.qkv, q + kv, kv));
    out.o = PackedMatrix(hidden, q, keeps_bf16());
    ZU_TRY(matrix(name("self_attn.o_proj.weight"), out.o, 0, hidden));
    out.gate_up = PackedMatrix(2 * inner, hidden, keeps_bf16());
    ZU_TRY(matrix(name("mlp.gate_proj.weight"), out.gate_up, 0, inner));
    ZU_TRY(matrix(name("mlp.up_proj.weight"), out.gate_up, inner, inner));
    out.down = PackedMatrix(hidden, inner, keeps_bf16());
    ZU_TRY(matrix(name("mlp.down_proj.weight"), out.down, 0, hidden));
    ZU_TRY_ASSIGN(out.input_norm, row(name("input_layernorm.weight"), hidden));
    ZU_TRY_ASSIGN(out.post_norm, row(name("post_attention_layernorm.weight"), hidden));
    if (config_.qkv_bias) {
      ZU_TRY_ASSIGN(out.qkv_bias, row(name("self_attn.q_proj.bias"), q));
      ZU_TRY(append(out.qkv_bias, name("self_attn.k_proj.bias"), kv));
      ZU_TRY(append(out.qkv_bias, name("self_attn.v_proj.bias"), kv));
    }
    if (config_.qk_norm) {
      ZU_TRY_ASSIGN(out.q_norm, per_head(name("self_attn.q_norm.weight"), config_.heads));
      ZU_TRY_ASSIGN(out.k_norm, per_head(name("self_attn.k_norm.weight"), config_.kv_heads));
    }
    return {};
  }

  Status whole(const char* name, int64_t n, PackedMatrix& out) {
    out = PackedMatrix(n, config_.hidden, keeps_bf16());
    return matrix(name, out, 0, n);
  }

  Result<std::vector<float>> row(const std::string& name, int64_t count) {
    ZU_TRY_ASSIGN(std::vector<float> values, weights_.vector(name));
    ZU_CHECK(static_cast<int64_t>(values.size()) == count);
    if (bf16_) round_row(values.data(), count, Rounding::kBf16);
    return values;
  }

 private:
  bool keeps_bf16() const { return bf16_ || weights_.bf16; }

  // Rows [0, n) of a tensor become rows [at, at + n) of `out`, a few thousand at a time.
  Status matrix(const std::string& name, PackedMatrix& out, int64_t at, int64_t n) {
    constexpr int64_t kRows = 4096;
    for (int64_t begin = 0; begin < n; begin += kRows) {
      if (interrupt_requested()) return interrupted();
      const int64_t end = std::min(n, begin + kRows);
      ZU_TRY_ASSIGN(const std::vector<float> values, weights_.rows(name, begin, end));
      ZU_CHECK(static_cast<int64_t>(values.size()) == (end - begin) * out.k());
      pool_.parallel_for(end - begin, kPanelColumns, [&](int64_t first, int64_t last, int) {
        out.set_rows(at + begin + first, last - first, values.data() + first * out.k());
      });
    }
    return {};
  }

  Status append(std::vector<float>& to, const std::string& name, int64_t count) {
    ZU_TRY_ASSIGN(const std::vector<float> values, row(name, count));
    to.insert(to.end(), values.begin(), values.end());
    return {};
  }

  Result<std::vector<float>> per_head(const std::string& name, int64_t heads) {
    ZU_TRY_ASSIGN(std::vector<float> values, weights_.vector(name));
    if (static_cast<int64_t>(values.size()) == config_.head_dim) {
      values.resize(static_cast<size_t>(heads * config_.head_dim));
      for (int64_t h = 1; h < heads; ++h) std::copy_n(values.begin(), config_.head_dim, values.begin() + h * config_.head_dim);
    }
    ZU_CHECK(static_cast<int64_t>(values.size()) == heads * config_.head_dim);
    if (bf16_) round_row(values.data(), static_cast<int64_t>(values.size()), Rounding::kBf16);
    return values;
  }

  const model::ModelConfig& config_;
  const FloatWeights& weights_;
  const bool bf16_;
  ThreadPool& pool_;
};

}  // namespace

Result<FloatModel> FloatModel::load(const model::ModelConfig& config, const FloatWeights& weights, FloatDecoder::Mode mode, ThreadPool& pool) {
  Loader loader(config, weights, mode, pool);
  FloatModel out;
  out.layers.resize(static_cast<size_t>(config.layers));
  for (int64_t i = 0; i < config.layers; ++i) ZU_TRY(loader.layer(i, out.layers[static_cast<size_t>(i)]));
  ZU_TRY(loader.whole(config.tied_head ? model::kEmbeddingName : model::kHeadName, config.vocab, out.head));
  if (!config.tied_head) ZU_TRY(loader.whole(model::kEmbeddingName, config.vocab, out.embedding));
  ZU_TRY_ASSIGN(out.final_norm, loader.row(model::kFinalNormName, config.hidden));
  return out;
}

FloatWeights weights_of(const model::Checkpoint& checkpoint) {
  FloatWeights out;
  out.vector = [&checkpoint](std::string_view name) { return checkpoint.floats(name); };
  out.rows = [&checkpoint](std::string_view name, int64_t begin, int64_t end) { return checkpoint.float_rows(name, begin, end); };
  for (const model::ExpectedTensor& e : model::expected_tensors(checkpoint.config()))
    if (e.shape.size() == 2 && checkpoint.find(e.name)->dtype != Dtype::kBF16) out.bf16 = false;
  return out;
}

}  // namespace zeroulp::engine
