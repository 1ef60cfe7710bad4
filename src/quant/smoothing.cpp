#include "quant/smoothing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "num/bf16.h"
#include "num/bits.h"
#include "num/calibration.h"
#include "ops/nll/contract.h"

namespace zeroulp::quant {
namespace {

using model::LinearRole;

// True when value * 2^shift is exact: zero, or normal before and after.
bool exact(float value, int shift) {
  const int exponent = static_cast<int>((num::bits_of(value) >> 23) & 0xFF);
  return value == 0 || shift == 0 || (exponent != 0 && exponent + shift >= 1 && exponent + shift <= 254);
}

// Walks everything that a shift touches, one visit per number: visit(value by reference, channel's s by reference, sign, tensor).
// `rows` and `columns` say which s a row or column of a linear takes.
template <class Visit>
class Walker {
 public:
  Walker(const model::ModelConfig& c, const Visit& visit) : c_(c), visit_(visit) {}

  template <class Layer, class S>
  void walk(Layer& layer, S& s) {
    const auto same = [](int64_t i) { return i; };
    if (!s.qkv.empty()) {
      norm(layer.input_norm, s.qkv, same, -1, "input_norm");
      for (const LinearRole role : {LinearRole::kQ, LinearRole::kK, LinearRole::kV}) columns(layer, role, s.qkv, same);
    }
    if (!s.mlp.empty()) {
      norm(layer.post_norm, s.mlp, same, -1, "post_norm");
      for (const LinearRole role : {LinearRole::kGate, LinearRole::kUp}) columns(layer, role, s.mlp, same);
    }
    if (!s.down.empty()) {
      rows(layer, LinearRole::kUp, s.down, same, -1);
      columns(layer, LinearRole::kDown, s.down, same);
    }
    const int64_t d = c_.head_dim, group = c_.heads / c_.kv_heads;
    if (!s.o.empty()) {
      rows(layer, LinearRole::kV, s.o, same, -1);
      columns(layer, LinearRole::kO, s.o, [=](int64_t i) { return i / d / group * d + i % d; });
    }
    if (!s.keys.empty()) {
      const auto key_pair = [=](int64_t i) { return i / d * (d / 2) + i % (d / 2); };
      const auto query_pair = [=](int64_t i) { return i / d / group * (d / 2) + i % (d / 2); };
      if (c_.qk_norm) {
        norm(layer.k_norm, s.keys, key_pair, -1, "k_norm");
        norm(layer.q_norm, s.keys, query_pair, 1, "q_norm");
      } else {
        rows(layer, LinearRole::kK, s.keys, key_pair, -1);
        rows(layer, LinearRole::kQ, s.keys, query_pair, 1);
      }
    }
  }

 private:
  template <class Norm, class S, class Of>
  void norm(Norm& weights, S& s, const Of& of, int sign, const char* name) {
    for (size_t i = 0; i < weights.size(); ++i) visit_(weights[i], s[static_cast<size_t>(of(static_cast<int64_t>(i)))], sign, name);
  }
  template <class Layer, class S, class Of>
  void columns(Layer& layer, LinearRole role, S& s, const Of& of) {
    auto& l = layer[role];
    std::vector<size_t> channel;
    for (int64_t j = 0; j < l.k; ++j) channel.push_back(static_cast<size_t>(of(j)));
    for (int64_t i = 0; i < l.n; ++i)
      for (int64_t j = 0; j < l.k; ++j) visit_(l.weights[static_cast<size_t>(i * l.k + j)], s[channel[static_cast<size_t>(j)]], 1, name_of(role));
  }
  template <class Layer, class S, class Of>
  void rows(Layer& layer, LinearRole role, S& s, const Of& of, int sign) {
    auto& l = layer[role];
    for (int64_t i = 0; i < l.n; ++i) {
      auto& shift = s[static_cast<size_t>(of(i))];
      for (int64_t j = 0; j < l.k; ++j) visit_(l.weights[static_cast<size_t>(i * l.k + j)], shift, sign, name_of(role));
      if (!l.bias.empty()) visit_(l.bias[static_cast<size_t>(i)], shift, sign, name_of(role));
    }
  }
  static const char* name_of(LinearRole role) { return model::kLinearNames[static_cast<int>(role)].data(); }

  const model::ModelConfig& c_;
  const Visit& visit_;
};

template <class Visit, class Layer, class S>
void for_every_number(Layer& layer, S& shifts, const model::ModelConfig& config, const Visit& visit) {
  Walker<Visit>(config, visit).walk(layer, shifts);
}

float as_float(float value) { return value; }
float as_float(uint16_t bf16) { return num::bf16_to_float(bf16); }
void scale(float& value, int shift) { value = num::ldexp_rn(value, shift); }
void scale(uint16_t& bf16, int shift) { bf16 = num::float_to_bf16(num::ldexp_rn(num::bf16_to_float(bf16), shift)); }

// The largest magnitude of each column over several linears with the same inputs.
std::vector<float> column_maxima(const FloatLayer& layer, std::initializer_list<LinearRole> roles) {
  std::vector<float> out(static_cast<size_t>(layer[*roles.begin()].k));
  for (const LinearRole role : roles)
    for (int64_t i = 0; i < layer[role].n; ++i) {
      const auto row = layer[role].row(i);
      for (size_t j = 0; j < out.size(); ++j) out[j] = std::max(out[j], std::fabs(row[j]));
    }
  return out;
}

// Of each KV channel over the query heads that read it; `values` has one entry per query channel.
std::vector<float> over_groups(const std::vector<float>& values, const model::ModelConfig& c) {
  std::vector<float> out(static_cast<size_t>(c.kv_size()));
  const int64_t d = c.head_dim, group = c.heads / c.kv_heads;
  for (int64_t i = 0; i < c.q_size(); ++i) {
    float& a = out[static_cast<size_t>(i / d / group * d + i % d)];
    a = std::max(a, values[static_cast<size_t>(i)]);
  }
  return out;
}

std::vector<int> balanced(const std::vector<float>& inputs, const std::vector<float>& weights, double alpha) {
  std::vector<int> out;
  for (size_t j = 0; j < inputs.size(); ++j) {
    const auto x = static_cast<double>(log2_q24(std::max(inputs[j], 1e-5f))), w = static_cast<double>(log2_q24(std::max(weights[j], 1e-8f)));
    out.push_back(num::nearest_shift(alpha * x - (1 - alpha) * w, -kMaxShift, kMaxShift));
  }
  return out;
}

}  // namespace

int64_t log2_q24(float value) {
  const uint32_t bits = num::bits_of(value);
  const int exponent = static_cast<int>(bits >> 23) - 127;
  return ops::nll::log2_q24((bits & 0x7FFFFFu) | 0x800000u) + (int64_t{exponent - 23} * (1 << 24));
}

void choose_input_shifts(Shifts& s, const model::ModelConfig& c, const FloatLayer& layer, const ChannelMaxima& m, double alpha) {
  s.qkv = balanced(m.attention_in, column_maxima(layer, {LinearRole::kQ, LinearRole::kK, LinearRole::kV}), alpha);
  s.mlp = balanced(m.mlp_in, column_maxima(layer, {LinearRole::kGate, LinearRole::kUp}), alpha);
  s.down = balanced(m.down_in, column_maxima(layer, {LinearRole::kDown}), alpha);
  s.o = balanced(over_groups(m.o_in, c), over_groups(column_maxima(layer, {LinearRole::kO}), c), alpha);
}

void choose_key_shifts(Shifts& s, const model::ModelConfig& c, const ChannelMaxima& m) {
  const int64_t half = c.head_dim / 2;
  s.keys.clear();
  for (int64_t head = 0; head < c.kv_heads; ++head) {
    const float* keys = m.keys.data() + head * c.head_dim;
    std::vector<int64_t> logs;
    for (int64_t i = 0; i < half; ++i) logs.push_back(log2_q24(std::max({keys[i], keys[i + half], 1e-5f})));
    std::vector<int64_t> sorted = logs;
    std::sort(sorted.begin(), sorted.end());
    const int64_t median = sorted[static_cast<size_t>((half - 1) / 2)];
    for (const int64_t l : logs) s.keys.push_back(num::nearest_shift(static_cast<double>(l - median), -3, 6));
  }
}

int64_t keep_exact(Shifts& shifts, const model::ModelConfig& config, const FloatLayer& layer) {
  int64_t dropped = 0;
  // A number may take two shifts (rows of up by down's, columns by mlp's): each must be exact alone and both together, so room for
  // the other is left.
  for_every_number(layer, shifts, config, [&](const auto& value, int& shift, int sign, const char*) {
    const float v = as_float(value);
    if (shift == 0 || (exact(v, sign * shift) && exact(v, sign * shift + kMaxShift) && exact(v, sign * shift - kMaxShift))) return;
    shift = 0;
    ++dropped;
  });
  return dropped;
}

Status fold(FloatLayer& layer, const model::ModelConfig& config, const Shifts& shifts) {
  std::string refused;
  for_every_number(layer, shifts, config, [&](auto& value, const int& shift, int sign, const char* tensor) {
    if (shift == 0) return;
    if (!exact(as_float(value), sign * shift)) {
      if (refused.empty())
        refused = fmt::format("smoothing: {} holds {}, which times 2^{} is not exact; use --smooth off", tensor, as_float(value), sign * shift);
      return;
    }
    scale(value, sign * shift);
  });
  if (!refused.empty()) return bad_input(refused);
  return {};
}

}  // namespace zeroulp::quant
