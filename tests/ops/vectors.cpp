#include "ops/vectors.h"

#include <nlohmann/json.hpp>

#include "ops/argmax/reference.h"
#include "ops/attention/reference.h"
#include "ops/embedding/reference.h"
#include "ops/linear_s8/reference.h"
#include "ops/mutants/mutants.h"
#include "ops/nll/reference.h"
#include "ops/quant_rows/reference.h"
#include "ops/residual/reference.h"
#include "ops/rmsnorm/reference.h"
#include "ops/rope/reference.h"
#include "ops/sample/contract.h"
#include "ops/silu_mul/reference.h"
#include "ops/vector_inputs.h"

namespace zeroulp::ops::vectors {
namespace {

using num::kBf16Nan;

template <class T>
std::vector<T> numbers(const Json& json) {
  return json.get<std::vector<T>>();
}
std::vector<uint16_t> bf16s(const Json& in, const char* key) { return from_hex<uint16_t>(in.at(key)); }
std::vector<float> floats(const Json& in, const char* key) { return from_hex<float>(in.at(key)); }
int64_t size_of(const Json& in, const char* key) { return in.at(key).get<int64_t>(); }

Json run(argmax::Fn* fn, const Json& in) {
  const auto logits = floats(in, "logits");
  argmax::Args a{logits.data(), static_cast<int64_t>(logits.size())};
  fn(a);
  return {{"index", a.index}};
}

Json run(nll::Fn* fn, const Json& in) {
  const auto logits = floats(in, "logits");
  nll::Args a{logits.data(), static_cast<int64_t>(logits.size()), size_of(in, "target")};
  fn(a);
  return {{"result", a.result}};
}

Json run(residual::Fn* fn, const Json& in) {
  auto x = bf16s(in, "x");
  const auto y = bf16s(in, "y");
  fn({x.data(), y.data(), static_cast<int64_t>(x.size())});
  return {{"x", hex(x)}};
}

Json run(embedding::Fn* fn, const Json& in) {
  const auto tokens = numbers<int32_t>(in.at("tokens"));
  const auto codes = numbers<int8_t>(in.at("codes"));
  const auto scales = floats(in, "scales");
  std::vector<uint16_t> y(tokens.size() * static_cast<size_t>(size_of(in, "k")));
  fn({tokens.data(), static_cast<int64_t>(tokens.size()), size_of(in, "k"), codes.data(), scales.data(), y.data()});
  return {{"y", hex(y)}};
}

Json run(silu_mul::Fn* fn, const Json& in) {
  const auto gate = bf16s(in, "gate"), up = bf16s(in, "up");
  std::vector<uint16_t> y(gate.size());
  fn({gate.data(), up.data(), static_cast<int64_t>(gate.size()), y.data()});
  return {{"y", hex(y)}};
}

Json run(rope::Fn* fn, const Json& in) {
  auto x = bf16s(in, "x");
  const auto cos = bf16s(in, "cos"), sin = bf16s(in, "sin");
  const auto positions = numbers<int32_t>(in.at("positions"));
  const int64_t heads = size_of(in, "heads"), d = size_of(in, "d");
  fn({x.data(), heads * d, static_cast<int64_t>(positions.size()), heads, d, positions.data(), cos.data(), sin.data()});
  return {{"x", hex(x)}};
}

Json run(rmsnorm::Fn* fn, const Json& in) {
  const auto x = bf16s(in, "x"), weight = bf16s(in, "weight");
  const int64_t d = size_of(in, "d");
  std::vector<uint16_t> y(x.size());
  fn({x.data(), d, size_of(in, "rows"), d, weight.data(), floats(in, "eps")[0], y.data(), d});
  return {{"y", hex(y)}};
}

Json run(quant_rows::Fn* fn, const Json& in) {
  const auto x = bf16s(in, "x"), absmax = in.contains("absmax") ? bf16s(in, "absmax") : std::vector<uint16_t>{};
  const int64_t rows = size_of(in, "rows"), k = size_of(in, "k");
  std::vector<int16_t> codes(x.size());
  std::vector<float> scales(static_cast<size_t>(rows));
  std::vector<uint8_t> faults(scales.size());
  fn({x.data(),
      k,
      rows,
      k,
      in.at("width").get<int>(),
      {bf16s(in, "least")[0], bf16s(in, "largest")[0], in.contains("pow2_scale")},
      absmax.empty() ? nullptr : absmax.data(),
      codes.data(),
      k,
      scales.data(),
      faults.data()});
  return {{"codes", codes}, {"scales", hex(scales)}, {"faults", std::vector<int>(faults.begin(), faults.end())}};
}

Json run(linear_s8::Fn* fn, const Json& in) {
  const auto codes = numbers<int16_t>(in.at("codes"));
  const auto weights = numbers<int8_t>(in.at("weights"));
  const auto sa = floats(in, "row_scales"), sb = floats(in, "channel_scales"),
             bias = in.contains("bias") ? floats(in, "bias") : std::vector<float>{};
  const int64_t rows = size_of(in, "rows"), n = size_of(in, "n"), k = size_of(in, "k");
  const auto call = [&](linear_s8::Output output, auto& y) {
    y.resize(static_cast<size_t>(rows * n));
    fn({codes.data(), k, sa.data(), rows, k, in.at("width").get<int>(), weights.data(), k, n, sb.data(),
        bias.empty() ? nullptr : bias.data(), output, y.data(), n});
  };
  const auto output = in.at("output").get<std::string>();
  if (output == "bf16") {
    std::vector<uint16_t> y;
    call(linear_s8::Output::kBf16, y);
    return {{"y", hex(y)}};
  }
  if (output == "fp32") {
    std::vector<float> y;
    call(linear_s8::Output::kF32, y);
    return {{"y", hex(y)}};
  }
  std::vector<int64_t> y;
  call(linear_s8::Output::kPartial, y);
  return {{"y", y}};
}

// From bf16 rows: store() and the quantiser are the references.
Json run(attention::Fn* fn, const Json& in) {
  const auto keys = bf16s(in, "keys"), values = bf16s(in, "values"), queries = bf16s(in, "queries");
  const int64_t d = size_of(in, "d"), rows = size_of(in, "rows"), group = size_of(in, "group");
  const kv_cache::Layout layout{d, in.at("key_width").get<int>()};
  const int64_t positions = static_cast<int64_t>(keys.size()) / d;
  std::vector<std::vector<std::byte>> blocks;
  std::vector<const std::byte*> pages;
  for (int64_t b = 0; b * kv_cache::kBlock < positions; ++b) blocks.emplace_back(static_cast<size_t>(layout.bytes()));
  for (const auto& block : blocks) pages.push_back(block.data());
  for (int64_t j = 0; j < positions; ++j)
    kv_cache::store(blocks[static_cast<size_t>(j / kv_cache::kBlock)].data(), layout, j % kv_cache::kBlock, keys.data() + j * d,
                    values.data() + j * d);
  std::vector<int16_t> q(queries.size());
  std::vector<float> q_scales(static_cast<size_t>(rows * group));
  std::vector<uint8_t> q_faults(q_scales.size()), faults(static_cast<size_t>(rows));
  quant_rows::reference(
      {queries.data(), d, rows * group, d, 15, num::kAttentionRange, nullptr, q.data(), d, q_scales.data(), q_faults.data()});
  std::vector<uint16_t> out(queries.size());
  fn({layout, rows, group, size_of(in, "first_position"), size_of(in, "window"), attention::score_constant(d, layout.key_width),
      q.data(), group * d, q_scales.data(), group, pages.data(), 0, out.data(), group * d, faults.data(), 1});
  return {{"out", hex(out)}, {"faults", std::vector<int>(faults.begin(), faults.end())}};
}

Json run_kv_cache(const Json& in) {
  const kv_cache::Layout layout{size_of(in, "d"), in.at("key_width").get<int>()};
  std::vector<std::byte> block(static_cast<size_t>(layout.bytes()));
  const auto k = bf16s(in, "key"), v = bf16s(in, "value");
  const bool good = kv_cache::store(block.data(), layout, 0, k.data(), v.data());
  const kv_cache::View<const std::byte> view(block.data(), layout);
  std::vector<int> key_codes, value_codes;
  for (int64_t i = 0; i < layout.d; ++i) {
    key_codes.push_back(view.key_lo ? 128 * view.key_hi[i] + view.key_lo[i] : view.key_hi[i]);
    value_codes.push_back(view.values[i * kv_cache::kBlock]);
  }
  return {{"key_codes", key_codes},
          {"key_scale", hex(std::vector<float>{view.key_scales[0]})},
          {"value_codes", value_codes},
          {"value_exponent", view.value_exponents[0]},
          {"fault", good ? 0 : 1}};
}

Json run_sample(const Json& in) {
  const auto logits = floats(in, "logits");
  const sample::Settings s{floats(in, "temperature")[0], size_of(in, "top_k"), in.at("top_p").get<double>(),
                           in.at("seed").get<uint64_t>()};
  sample::Sampler sampler(static_cast<int64_t>(logits.size()));
  return {{"token", sampler.draw(logits.data(), static_cast<int64_t>(logits.size()), s, in.at("position").get<uint32_t>(),
                                 in.at("request").get<uint64_t>())}};
}

template <class Fn>
Op op_of(std::string name, std::span<const Variant<Fn>> variants, std::span<const Variant<Fn>> mutants,
         std::vector<Json> (*inputs)()) {
  Op op{std::move(name), {}, {}, inputs};
  const auto runner = [](const Variant<Fn>& v) {
    return Runner{std::string(v.name), [fn = v.run](const Json& in) { return run(fn, in); }};
  };
  for (const Variant<Fn>& v : variants)
    if (why_unavailable(v.needs, cpu_features()).empty()) op.variants.push_back(runner(v));
  for (const Variant<Fn>& v : mutants) op.mutants.push_back(runner(v));
  return op;
}

}  // namespace

std::vector<Op> all_ops() {
  return {op_of("argmax", argmax::variants(), mutants::of_argmax(), argmax_inputs),
          op_of("attention", attention::variants(), mutants::of_attention(), attention_inputs),
          op_of("embedding", embedding::variants(), mutants::of_embedding(), embedding_inputs),
          {"kv_cache", {{"reference", run_kv_cache}}, {}, kv_cache_inputs},
          op_of("linear_s8", linear_s8::variants(), mutants::of_linear_s8(), linear_s8_inputs),
          op_of("nll", nll::variants(), mutants::of_nll(), nll_inputs),
          op_of("quant_rows", quant_rows::variants(), mutants::of_quant_rows(), quant_rows_inputs),
          op_of("residual", residual::variants(), mutants::of_residual(), residual_inputs),
          op_of("rmsnorm", rmsnorm::variants(), mutants::of_rmsnorm(), rmsnorm_inputs),
          op_of("rope", rope::variants(), mutants::of_rope(), rope_inputs),
          {"sample", {{"reference", run_sample}}, {}, sample_inputs},
          op_of("silu_mul", silu_mul::variants(), mutants::of_silu_mul(), silu_mul_inputs)};
}

}  // namespace zeroulp::ops::vectors
