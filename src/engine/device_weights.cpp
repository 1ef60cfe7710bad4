#include "engine/device_weights.h"

#include <cstring>

namespace zeroulp::engine {
namespace {

using model::LinearRole;
using model::QuantizedLinear;

// Output channels `rows` and inputs `columns` of a linear.
struct Slice {
  const QuantizedLinear* linear;
  Part rows, columns;
};

class Uploader {
 public:
  Uploader(const device::Stream& stream, DeviceArena& arena) : stream_(stream), arena_(arena) {}

  // The slices one below the other: same inputs, same width.
  Result<DeviceLinear> join(std::span<const Slice> slices) {
    DeviceLinear out;
    out.k = padded(slices[0].columns.size());
    out.width = slices[0].linear->width;
    bool any_bias = false;
    for (const Slice& s : slices) {
      out.n += s.rows.size();
      any_bias |= s.linear->bias != nullptr;
    }
    codes_.assign(static_cast<size_t>(out.n * out.k), 0);
    scales_.clear();
    bias_.clear();
    int8_t* to = codes_.data();
    for (const Slice& s : slices) {
      for (int64_t row = s.rows.begin; row < s.rows.end; ++row, to += out.k)
        std::memcpy(to, s.linear->codes + row * s.linear->k + s.columns.begin, static_cast<size_t>(s.columns.size()));
      scales_.insert(scales_.end(), s.linear->scales + s.rows.begin, s.linear->scales + s.rows.end);
      if (s.linear->bias != nullptr) bias_.insert(bias_.end(), s.linear->bias + s.rows.begin, s.linear->bias + s.rows.end);
    }
    ZU_TRY_ASSIGN(out.codes, arena_.upload<const int8_t>(stream_, codes_.data(), out.n * out.k, "weights"));
    ZU_TRY_ASSIGN(out.scales, arena_.upload<const float>(stream_, scales_.data(), out.n, "weights"));
    if (any_bias) {
      ZU_TRY_ASSIGN(out.bias, arena_.upload<const float>(stream_, bias_.data(), out.n, "weights"));
    }
    ZU_TRY(stream_.synchronize());  // the staging vectors are used again
    return out;
  }

  // Runs of equal width, and of equal presence of a bias, become one linear each.
  Result<DeviceGroup> group(std::span<const Slice> slices) {
    DeviceGroup out;
    for (size_t first = 0; first < slices.size();) {
      const auto same = [&](const Slice& s) {
        return s.linear->width == slices[first].linear->width && (s.linear->bias != nullptr) == (slices[first].linear->bias != nullptr);
      };
      size_t end = first + 1;
      while (end < slices.size() && same(slices[end])) ++end;
      ZU_TRY_ASSIGN(DeviceLinear part, join(slices.subspan(first, end - first)));
      part.first_output = out.n;
      out.n += part.n;
      out.parts.push_back(part);
      first = end;
    }
    return out;
  }

  Result<const uint16_t*> vector(const uint16_t* from, int64_t count) {
    if (from == nullptr) return static_cast<const uint16_t*>(nullptr);
    return arena_.upload<const uint16_t>(stream_, from, count, "weights");
  }

 private:
  const device::Stream& stream_;
  DeviceArena& arena_;
  std::vector<int8_t> codes_;
  std::vector<float> scales_, bias_;
};

}  // namespace

Result<DeviceWeights> DeviceWeights::upload(const model::QuantizedModel& m, const RankParts& p, const device::Stream& stream, DeviceArena& arena) {
  const model::ModelConfig& c = m.config();
  const int64_t d = c.head_dim;
  const Part all_in{0, c.hidden}, all_out{0, c.hidden}, q{p.heads.begin * d, p.heads.end * d}, kv{p.kv.begin * d, p.kv.end * d};
  Uploader up(stream, arena);
  DeviceWeights w;
  for (const model::QuantizedLayer& layer : m.layers()) {
    DeviceLayer out;
    const Slice qkv[] = {{&layer[LinearRole::kQ], q, all_in}, {&layer[LinearRole::kK], kv, all_in}, {&layer[LinearRole::kV], kv, all_in}};
    const Slice gate_up[] = {{&layer[LinearRole::kGate], p.inner, all_in}, {&layer[LinearRole::kUp], p.inner, all_in}};
    const Slice o{&layer[LinearRole::kO], all_out, q}, down{&layer[LinearRole::kDown], all_out, p.inner};
    ZU_TRY_ASSIGN(out.qkv, up.group(qkv));
    ZU_TRY_ASSIGN(out.gate_up, up.group(gate_up));
    ZU_TRY_ASSIGN(out.o, up.join({&o, 1}));
    ZU_TRY_ASSIGN(out.down, up.join({&down, 1}));
    ZU_TRY_ASSIGN(out.input_norm, up.vector(layer.input_norm, c.hidden));
    ZU_TRY_ASSIGN(out.post_norm, up.vector(layer.post_norm, c.hidden));
    ZU_TRY_ASSIGN(out.q_norm, up.vector(layer.q_norm ? layer.q_norm + q.begin : nullptr, q.size()));
    ZU_TRY_ASSIGN(out.k_norm, up.vector(layer.k_norm ? layer.k_norm + kv.begin : nullptr, kv.size()));
    w.layers.push_back(std::move(out));
  }
  ZU_TRY_ASSIGN(w.embedding, arena.upload<const int8_t>(stream, m.embedding().codes, c.vocab * c.hidden, "the embedding"));
  ZU_TRY_ASSIGN(w.embedding_scales, arena.upload<const float>(stream, m.embedding().scales, c.vocab, "the embedding"));
  ZU_TRY_ASSIGN(w.final_norm, up.vector(m.final_norm(), c.hidden));
  const bool tied = m.head().codes == m.embedding().codes && m.head().scales == m.embedding().scales && c.hidden == padded(c.hidden);
  if (tied) {
    w.head = {p.vocab.size(), c.hidden, m.head().width, w.embedding + p.vocab.begin * c.hidden, w.embedding_scales + p.vocab.begin, nullptr, 0};
  } else {
    const Slice head{&m.head(), p.vocab, all_in};
    ZU_TRY_ASSIGN(w.head, up.join({&head, 1}));
  }
  ZU_TRY(stream.synchronize());
  return w;
}

int64_t DeviceWeights::linear_bytes() const {
  const auto of = [](const DeviceLinear& l) { return l.n * (l.k + 4 + (l.bias ? 4 : 0)); };
  int64_t bytes = of(head);
  for (const DeviceLayer& layer : layers) {
    bytes += of(layer.o) + of(layer.down);
    for (const DeviceGroup* g : {&layer.qkv, &layer.gate_up})
      for (const DeviceLinear& l : g->parts) bytes += of(l);
  }
  return bytes;
}

}  // namespace zeroulp::engine
