#include "verify/faults/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/fp_env.h"
#include "engine/engine.h"

namespace zeroulp::verify {

using engine::TraceOp;
using model::LinearRole;

namespace {

constexpr int64_t kHeadRows = 16;  // whose logits are looked at

template <class T>
Output make_output(std::string place, Element element, int64_t width, const std::vector<T>& values) {
  Output o{std::move(place), element, static_cast<int64_t>(values.size()) / width, width, std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(o.bytes.data(), values.data(), o.bytes.size());
  return o;
}

struct Quantised {
  std::vector<int16_t> codes;
  std::vector<float> scales;
};
Quantised quantised(const ops::Kernels& kernels, const uint16_t* x, int64_t rows, int64_t k, int width, const num::RowRange& range) {
  Quantised q{std::vector<int16_t>(static_cast<size_t>(rows * k)), std::vector<float>(static_cast<size_t>(rows))};
  std::vector<uint8_t> faults(q.scales.size());
  kernels.quant_rows.run({x, k, rows, k, width, range, nullptr, q.codes.data(), k, q.scales.data(), faults.data()});
  return q;
}

}  // namespace

Observed observed(std::string_view op, const Output& expected, const Output& got) {
  return {op, expected.element, expected.rows, expected.width, expected.bytes.data(), got.bytes.data()};
}

std::vector<int64_t> spread_layers(int64_t layers, int64_t count) {
  std::vector<int64_t> out;
  count = std::min(layers, count);
  for (int64_t i = 0; i < count; ++i) out.push_back(count == 1 ? 0 : i * (layers - 1) / (count - 1));
  return out;
}

Result<Capture> Capture::of(const model::QuantizedModel& model, const std::vector<int32_t>& tokens, const std::vector<int64_t>& layers, int threads) {
  Capture c(model, tokens, layers);
  c.kept_.resize(layers.size());
  engine::EngineOptions options;
  options.threads = threads;
  options.max_rows = options.max_context = options.max_total_positions = c.rows();
  ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(model, options));
  engine->set_trace([&c](const engine::TracePoint& p) {
    const auto keep = [&p](Rows& rows) { rows.insert(rows.end(), p.values, p.values + p.width); };
    if (p.op == TraceOp::kEmbedding) keep(c.embedding_);
    if (p.op == TraceOp::kFinalNorm) keep(c.final_norm_);
    for (size_t i = 0; i < c.layers_.size(); ++i) {
      const int64_t layer = c.layers_[i];
      if (p.layer == layer && p.op != TraceOp::kFinalNorm) keep(c.kept_[i].wrote[static_cast<size_t>(p.op)]);
      if (layer == 0 ? p.op == TraceOp::kEmbedding : p.op == TraceOp::kMlpResidual && p.layer == layer - 1) keep(c.kept_[i].before);
    }
  });
  const engine::Engine::Chunk chunk{engine->open_sequence(), c.tokens_, engine::Engine::Want::kAll};
  ZU_TRY(engine->forward(std::span(&chunk, 1), [](const engine::LogitsBlock&) -> Status { return {}; }));
  return c;
}

Capture::Rows Capture::normed(const ops::Kernels& k, const Rows& x, const uint16_t* weight, int64_t d) const {
  Rows y(x.size());
  k.rmsnorm.run({x.data(), d, static_cast<int64_t>(x.size()) / d, d, weight, model_->config().rms_eps, y.data(), d});
  return y;
}

Capture::Rows Capture::head_normed(const ops::Kernels& k, const Rows& x, const uint16_t* weights, int64_t heads) const {
  const int64_t d = model_->config().head_dim, stride = heads * d;
  Rows y = x;
  for (int64_t head = 0; head < heads; ++head)
    k.rmsnorm.run({y.data() + head * d, stride, rows(), d, weights + head * d, model_->config().rms_eps, y.data() + head * d, stride});
  return y;
}

void Capture::linears(const ops::Kernels& k, std::vector<Output>& to) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const model::QuantizedLayer& weights = model_->layers()[static_cast<size_t>(layers_[i])];
    for (const LinearRole role : {LinearRole::kQ, LinearRole::kK, LinearRole::kV, LinearRole::kO, LinearRole::kGate, LinearRole::kUp, LinearRole::kDown}) {
      const TraceOp input = role == LinearRole::kO                                   ? TraceOp::kAttention
                            : role == LinearRole::kDown                              ? TraceOp::kSiluMul
                            : role == LinearRole::kGate || role == LinearRole::kUp ? TraceOp::kPostNorm
                                                                                     : TraceOp::kInputNorm;
      const model::QuantizedLinear& l = weights[role];
      const Quantised q = quantised(k, kept_[i].at(input).data(), rows(), l.k, l.width, l.rows);
      Rows y(static_cast<size_t>(rows() * l.n));
      k.linear_s8.run({q.codes.data(), l.k, q.scales.data(), rows(), l.k, l.width, l.codes, l.k, l.n, l.scales, l.bias, ops::linear_s8::Output::kBf16, y.data(), l.n});
      to.push_back(make_output(fmt::format("layer {}, {}", layers_[i], model::kLinearNames[static_cast<size_t>(role)]), Element::kBf16, l.n, y));
    }
  }
}

Output Capture::head(const ops::Kernels& k) const {
  const model::QuantizedLinear& l = model_->head();
  const int64_t count = std::min(kHeadRows, rows());
  const uint16_t* x = final_norm_.data() + (rows() - count) * l.k;
  const Quantised q = quantised(k, x, count, l.k, l.width, l.rows);
  std::vector<float> y(static_cast<size_t>(count * l.n));
  k.linear_s8.run({q.codes.data(), l.k, q.scales.data(), count, l.k, l.width, l.codes, l.k, l.n, l.scales, l.bias, ops::linear_s8::Output::kF32, y.data(), l.n});
  return make_output("head", Element::kF32, l.n, y);
}

Capture::Rows Capture::rotated(const ops::Kernels& k, const Layer& layer, size_t index, bool query) const {
  const model::ModelConfig& c = model_->config();
  const model::QuantizedLayer& weights = model_->layers()[static_cast<size_t>(layers_[index])];
  const int64_t d = c.head_dim, half = d / 2, heads = query ? c.heads : c.kv_heads;
  Rows x = layer.at(query ? TraceOp::kQ : TraceOp::kK);
  if (c.qk_norm) x = head_normed(k, x, query ? weights.q_norm : weights.k_norm, heads);
  Rows cos, sin;
  std::vector<int32_t> positions;
  for (int64_t p = 0; p < rows(); ++p) {
    positions.push_back(static_cast<int32_t>(p));
    for (int64_t i = 0; i < half; ++i) {
      const num::SinCosBf16 e = k.rope_table(static_cast<uint32_t>(p), c.rope_frequencies[static_cast<size_t>(i)], c.rope_attention_factor);
      cos.push_back(e.cos), sin.push_back(e.sin);
    }
  }
  k.rope.run({x.data(), heads * d, rows(), heads, d, positions.data(), cos.data(), sin.data()});
  return x;
}

Capture::Rows Capture::attended(const ops::Kernels& k, const Layer& layer, size_t index) const {
  const model::ModelConfig& c = model_->config();
  const int64_t d = c.head_dim, group = c.heads / c.kv_heads, at = layers_[index], kv_size = c.kv_heads * d, q_size = c.heads * d;
  const ops::kv_cache::Layout layout{d, model_->layers()[static_cast<size_t>(at)].key_width};
  const auto pages = static_cast<size_t>((rows() + ops::kv_cache::kBlock - 1) / ops::kv_cache::kBlock);
  const Quantised q = quantised(k, layer.at(TraceOp::kQRope).data(), rows() * c.heads, d, 15, num::kAttentionRange);
  Rows out(static_cast<size_t>(rows() * q_size));
  std::vector<uint8_t> faults(static_cast<size_t>(rows()));
  for (int64_t head = 0; head < c.kv_heads; ++head) {
    std::vector<std::vector<std::byte>> blocks(pages, std::vector<std::byte>(static_cast<size_t>(layout.bytes())));
    std::vector<const std::byte*> pointers;
    for (const auto& block : blocks) pointers.push_back(block.data());
    for (int64_t p = 0; p < rows(); ++p)
      k.store(blocks[static_cast<size_t>(p / ops::kv_cache::kBlock)].data(), layout, p % ops::kv_cache::kBlock,
              layer.at(TraceOp::kKRope).data() + p * kv_size + head * d, layer.at(TraceOp::kV).data() + p * kv_size + head * d);
    k.attention.run({layout, rows(), group, 0, c.window[static_cast<size_t>(at)].value_or(0), ops::attention::score_constant(d, layout.key_width),
                     q.codes.data() + head * group * d, q_size, q.scales.data() + head * group, c.heads, pointers.data(), 0, out.data() + head * group * d, q_size,
                     faults.data(), 1});
  }
  return out;
}

std::vector<Output> Capture::outputs(std::string_view op, const ops::Kernels& k) const {
  const FpEnvScope fp;
  const model::ModelConfig& c = model_->config();
  std::vector<Output> to;
  const auto add = [&](size_t i, std::string_view place, int64_t width, const Rows& rows) {
    to.push_back(make_output(fmt::format("layer {}, {}", layers_[i], place), Element::kBf16, width, rows));
  };
  const auto name = [](TraceOp at) { return engine::kTraceOpNames[static_cast<size_t>(at)]; };
  if (op == "embedding") {
    const model::QuantizedLinear& e = model_->embedding();
    Rows y(static_cast<size_t>(rows() * c.hidden));
    k.embedding.run({tokens_.data(), rows(), c.hidden, e.codes, e.scales, y.data()});
    to.push_back(make_output("embedding", Element::kBf16, c.hidden, y));
  } else if (op == "linear_s8" || op == "quant_rows") {
    linears(k, to);
    to.push_back(head(k));
  } else if (op == "codes") {
    for (size_t i = 0; i < layers_.size(); ++i)
      for (const TraceOp at : {TraceOp::kInputNorm, TraceOp::kAttention, TraceOp::kSiluMul}) {
        const LinearRole role = at == TraceOp::kInputNorm ? LinearRole::kQ : at == TraceOp::kAttention ? LinearRole::kO : LinearRole::kDown;
        const model::QuantizedLinear& l = model_->layers()[static_cast<size_t>(layers_[i])][role];
        const Quantised q = quantised(k, kept_[i].at(at).data(), rows(), l.k, l.width, l.rows);
        to.push_back(make_output(fmt::format("layer {}, input of {}", layers_[i], model::kLinearNames[static_cast<size_t>(role)]), Element::kI16, l.k, q.codes));
      }
  } else if (op == "argmax") {
    const Output logits = head(k);
    std::vector<int64_t> chosen;
    for (int64_t row = 0; row < logits.rows; ++row) {
      ops::argmax::Args a{reinterpret_cast<const float*>(logits.bytes.data()) + row * logits.width, logits.width};
      k.argmax.run(a);
      chosen.push_back(a.index);
    }
    to.push_back(make_output("argmax", Element::kI64, 1, chosen));
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = kept_[i];
    const model::QuantizedLayer& w = model_->layers()[static_cast<size_t>(layers_[i])];
    if (op == "rmsnorm") {
      add(i, name(TraceOp::kInputNorm), c.hidden, normed(k, layer.before, w.input_norm, c.hidden));
      add(i, name(TraceOp::kPostNorm), c.hidden, normed(k, layer.at(TraceOp::kAttentionResidual), w.post_norm, c.hidden));
    } else if (op == "rope" || op == "rope_table") {
      add(i, name(TraceOp::kQRope), c.heads * c.head_dim, rotated(k, layer, i, true));
      add(i, name(TraceOp::kKRope), c.kv_heads * c.head_dim, rotated(k, layer, i, false));
    } else if (op == "attention" || op == "kv_cache") {
      add(i, name(TraceOp::kAttention), c.heads * c.head_dim, attended(k, layer, i));
    } else if (op == "silu_mul") {
      Rows y(layer.at(TraceOp::kGate).size());
      k.silu_mul.run({layer.at(TraceOp::kGate).data(), layer.at(TraceOp::kUp).data(), static_cast<int64_t>(y.size()), y.data()});
      add(i, name(TraceOp::kSiluMul), c.intermediate, y);
    } else if (op == "residual") {
      Rows x = layer.before;
      k.residual.run({x.data(), layer.at(TraceOp::kO).data(), static_cast<int64_t>(x.size())});
      add(i, name(TraceOp::kAttentionResidual), c.hidden, x);
      x = layer.at(TraceOp::kAttentionResidual);
      k.residual.run({x.data(), layer.at(TraceOp::kDown).data(), static_cast<int64_t>(x.size())});
      add(i, name(TraceOp::kMlpResidual), c.hidden, x);
    }
  }
  return to;
}

}  // namespace zeroulp::verify
