#include "engine/float_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/interrupt.h"
#include "engine/float_weights.h"

namespace zeroulp::engine {

struct FloatDecoder::Impl {
  model::ModelConfig config;
  Options options;
  ThreadPool* pool = nullptr;
  FloatModel weights;

  Rounding rounding() const { return options.mode == Mode::kBf16 ? Rounding::kBf16 : Rounding::kNone; }
};

namespace {

constexpr int64_t kChunkRows = 1024;  // processed at once; no result depends on it

// cos and sin of the angles as transformers has them: the fp32 product of position and frequency, cos and sin rounded to fp32.
struct AngleTable {
  AngleTable(const model::ModelConfig& config, int64_t first, int64_t rows, Rounding rounding) : half(config.head_dim / 2) {
    cosine.resize(static_cast<size_t>(rows * half));
    sine.resize(cosine.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(first + r) * config.rope_frequencies[static_cast<size_t>(i)];
        cosine[static_cast<size_t>(r * half + i)] = static_cast<float>(std::cos(static_cast<double>(angle))) * config.rope_attention_factor;
        sine[static_cast<size_t>(r * half + i)] = static_cast<float>(std::sin(static_cast<double>(angle))) * config.rope_attention_factor;
      }
    round_row(cosine.data(), rows * half, rounding);
    round_row(sine.data(), rows * half, rounding);
  }
  int64_t half;
  std::vector<float> cosine, sine;
};

// One chunk of rows on its way through the layers.
class Chunk {
 public:
  Chunk(const model::ModelConfig& config, const FloatModel& weights, Rounding rounding, Softmax softmax, ThreadPool& pool, int64_t first,
        int64_t rows, const CaptureSink& capture)
      : config_(config), weights_(weights), rounding_(rounding), softmax_(softmax), pool_(pool), first_(first), rows_(rows),
        rope_(config, first, rows, rounding), capture_(capture) {
    const int64_t qkv = config.q_size() + 2 * config.kv_size();
    resize(x_, config.hidden);
    resize(normed_, config.hidden);
    resize(wide_, std::max({qkv, 2 * config.intermediate, config.hidden}));
    resize(narrow_, std::max(config.q_size(), config.intermediate));
  }

  void embed(std::span<const int32_t> tokens) {
    const PackedMatrix& table = weights_.embedding.n() > 0 ? weights_.embedding : weights_.head;
    each_row([&](int64_t r) { table.row(tokens[static_cast<size_t>(r)], x_.data() + r * config_.hidden); });
  }

  Status layer(int64_t index, FloatCache& cache) {
    const FloatLayer& w = weights_.layers[static_cast<size_t>(index)];
    const int64_t hidden = config_.hidden, q = config_.q_size(), inner = config_.intermediate;
    norm(w.input_norm, normed_.data());
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) ZU_TRY(capture(index, name, normed_, hidden));
    linear(normed_, w.qkv, w.qkv_bias);
    heads(w, cache);
    attention(index).run(pool_, wide_.data(), w.qkv.n(), first_, rows_, cache, narrow_.data());
    ZU_TRY(capture(index, "self_attn.o_proj", narrow_, q));
    linear(narrow_, w.o, {});
    add();
    norm(w.post_norm, normed_.data());
    for (const char* name : {"mlp.gate_proj", "mlp.up_proj"}) ZU_TRY(capture(index, name, normed_, hidden));
    linear(normed_, w.gate_up, {});
    each_row([&](int64_t r) {
      const float* gate = wide_.data() + r * 2 * inner;
      silu_mul_row(gate, gate + inner, inner, narrow_.data() + r * inner, rounding_);
    });
    ZU_TRY(capture(index, "mlp.down_proj", narrow_, inner));
    linear(narrow_, w.down, {});
    add();
    return {};
  }

  Status finish(float* hidden) {
    norm(weights_.final_norm, hidden);
    return capture_ ? capture_({-1, "lm_head", first_, rows_, config_.hidden, hidden}) : Status();
  }

 private:
  void resize(std::vector<float>& v, int64_t columns) { v.resize(static_cast<size_t>(rows_ * columns)); }

  template <class Row>
  void each_row(const Row& row) {
    pool_.parallel_for(rows_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) row(r);
    });
  }

  Status capture(int64_t layer, const char* name, const std::vector<float>& x, int64_t k) {
    return capture_ ? capture_({layer, name, first_, rows_, k, x.data()}) : Status();
  }

  void norm(const std::vector<float>& weight, float* out) {
    const int64_t n = config_.hidden;
    each_row([&](int64_t r) { rmsnorm_row(x_.data() + r * n, weight.data(), n, config_.rms_eps, out + r * n, rounding_); });
  }

  // wide_ [rows, n] = x w^T + bias, rounded.
  void linear(const std::vector<float>& x, const PackedMatrix& w, const std::vector<float>& bias) {
    packed_.pack(pool_, x.data(), rows_, w.k(), w.k());
    sgemm(pool_, packed_, w.panels(), wide_.data(), w.n());
    each_row([&](int64_t r) {
      float* y = wide_.data() + r * w.n();
      if (bias.empty()) {
        round_row(y, w.n(), rounding_);
      } else {
        add_bias_row(y, bias.data(), w.n(), rounding_);
      }
    });
  }

  void add() {
    const int64_t n = config_.hidden;
    each_row([&](int64_t r) { add_row(x_.data() + r * n, wide_.data() + r * n, n, rounding_); });
  }

  // QK-norm and RoPE in place; keys and values to the cache.
  void heads(const FloatLayer& w, FloatCache& cache) {
    const int64_t d = config_.head_dim, q_heads = config_.heads, kv_heads = config_.kv_heads;
    each_row([&](int64_t r) {
      float* q = wide_.data() + r * w.qkv.n();
      float* k = q + config_.q_size();
      const float* v = k + config_.kv_size();
      for (int64_t h = 0; h < q_heads; ++h) head(q + h * d, w.q_norm, h, r);
      for (int64_t h = 0; h < kv_heads; ++h) {
        head(k + h * d, w.k_norm, h, r);
        cache.store(h, first_ + r, k + h * d, v + h * d);
      }
    });
  }

  void head(float* x, const std::vector<float>& norm_weight, int64_t h, int64_t r) {
    const int64_t d = config_.head_dim;
    if (!norm_weight.empty()) rmsnorm_row(x, norm_weight.data() + h * d, d, config_.rms_eps, x, rounding_);
    rope_row(x, rope_.cosine.data() + r * rope_.half, rope_.sine.data() + r * rope_.half, d, rounding_);
  }

  FloatAttention attention(int64_t layer) const {
    return {config_.heads, config_.kv_heads, config_.head_dim, config_.window.empty() ? std::nullopt : config_.window[static_cast<size_t>(layer)],
            softmax_, rounding_};
  }

  const model::ModelConfig& config_;
  const FloatModel& weights_;
  const Rounding rounding_;
  const Softmax softmax_;
  ThreadPool& pool_;
  const int64_t first_, rows_;
  const AngleTable rope_;
  const CaptureSink& capture_;
  std::vector<float> x_, normed_, wide_, narrow_;
  PackedRows packed_;
};

}  // namespace

FloatDecoder::FloatDecoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FloatDecoder::FloatDecoder(FloatDecoder&&) noexcept = default;
FloatDecoder& FloatDecoder::operator=(FloatDecoder&&) noexcept = default;
FloatDecoder::~FloatDecoder() = default;

const model::ModelConfig& FloatDecoder::config() const { return impl_->config; }

Result<FloatDecoder> FloatDecoder::create(const model::Checkpoint& checkpoint, const Options& options, ThreadPool& pool) {
  return create(checkpoint.config(), weights_of(checkpoint), options, pool);
}

Result<FloatDecoder> FloatDecoder::create(const model::ModelConfig& config, const FloatWeights& weights, const Options& options,
                                          ThreadPool& pool) {
  ZU_CHECK(options.block_rows >= 1);
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  impl->options = options;
  impl->pool = &pool;
  ZU_TRY_ASSIGN(impl->weights, FloatModel::load(config, weights, options.mode, pool));
  return FloatDecoder(std::move(impl));
}

FloatSequence FloatDecoder::start(int64_t capacity) const {
  const model::ModelConfig& c = impl_->config;
  FloatSequence out;
  out.capacity_ = capacity;
  out.layers_.reserve(static_cast<size_t>(c.layers));
  for (int64_t i = 0; i < c.layers; ++i) out.layers_.emplace_back(c.kv_heads, c.head_dim, capacity);
  out.hidden_.resize(static_cast<size_t>(capacity * c.hidden));
  return out;
}

Status FloatDecoder::extend(FloatSequence& sequence, std::span<const int32_t> tokens, const CaptureSink& capture) const {
  const model::ModelConfig& c = impl_->config;
  const auto count = static_cast<int64_t>(tokens.size());
  ZU_CHECK(sequence.length_ + count <= sequence.capacity_);
  for (const int32_t token : tokens)
    if (token < 0 || token >= c.vocab) return bad_input(fmt::format("token {} is outside the model's vocabulary of {}", token, c.vocab));
  for (int64_t begin = 0; begin < count; begin += kChunkRows) {
    const int64_t rows = std::min(kChunkRows, count - begin);
    Chunk chunk(c, impl_->weights, impl_->rounding(), impl_->options.softmax, *impl_->pool, sequence.length_, rows, capture);
    chunk.embed(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(rows)));
    for (int64_t i = 0; i < c.layers; ++i) {
      if (interrupt_requested()) return interrupted();
      ZU_TRY(chunk.layer(i, sequence.layers_[static_cast<size_t>(i)]));
    }
    ZU_TRY(chunk.finish(sequence.hidden_.data() + sequence.length_ * c.hidden));
    sequence.length_ += rows;
  }
  return {};
}

void FloatDecoder::logits(const FloatSequence& sequence, int64_t first, int64_t rows, float* out) const {
  ZU_CHECK(first >= 0 && rows >= 0 && first + rows <= sequence.length_);
  const model::ModelConfig& c = impl_->config;
  PackedRows packed;
  packed.pack(*impl_->pool, sequence.hidden_.data() + first * c.hidden, rows, c.hidden, c.hidden);
  sgemm(*impl_->pool, packed, impl_->weights.head.panels(), out, c.vocab);
  if (!impl_->options.round_logits) return;
  impl_->pool->parallel_for(rows, 1, [&](int64_t begin, int64_t end, int) {
    round_row(out + begin * c.vocab, (end - begin) * c.vocab, Rounding::kBf16);
  });
}

Status FloatDecoder::forward(std::span<const int32_t> tokens, const LogitsSink& sink, const CaptureSink& capture) const {
  const auto count = static_cast<int64_t>(tokens.size());
  FloatSequence sequence = start(count);
  ZU_TRY(extend(sequence, tokens, capture));
  if (!sink) return {};
  const int64_t vocab = impl_->config.vocab, block = std::min(count, impl_->options.block_rows);
  std::vector<float> rows(static_cast<size_t>(block * vocab));
  for (int64_t first = 0; first < count; first += block) {
    if (interrupt_requested()) return interrupted();
    const int64_t here = std::min(block, count - first);
    logits(sequence, first, here, rows.data());
    ZU_TRY(sink({0, first, here, rows.data(), vocab}));
  }
  return {};
}

Result<std::vector<int32_t>> FloatDecoder::greedy(std::span<const int32_t> prompt, int64_t count) const {
  ZU_CHECK(!prompt.empty());
  FloatSequence sequence = start(static_cast<int64_t>(prompt.size()) + count);
  ZU_TRY(extend(sequence, prompt));
  std::vector<float> row(static_cast<size_t>(impl_->config.vocab));
  std::vector<int32_t> out;
  while (static_cast<int64_t>(out.size()) < count) {
    logits(sequence, sequence.length() - 1, 1, row.data());
    out.push_back(static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    ZU_TRY(extend(sequence, std::span(&out.back(), 1)));
  }
  return out;
}

}  // namespace zeroulp::engine
