#include "verify/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "num/bits.h"
#include "ops/fastest.h"

namespace zeroulp::verify {

using model::LinearRole;
using ops::linear_s8::Args;
using ops::linear_s8::Output;

namespace {

std::span<const int64_t> exact_sums(Args a) {
  thread_local std::vector<int64_t> sums;
  sums.resize(static_cast<size_t>(a.rows * a.n));
  a.output = Output::kPartial;
  a.y = sums.data();
  a.y_stride = a.n;
  ops::fastest_kernels().linear_s8.run(a);
  return sums;
}

template <EpilogueOrder order>
void run_foreign(const Args& a) {
  const std::span<const int64_t> sums = exact_sums(a);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t c = 0; c < a.n; ++c) ops::linear_s8::foreign_store(order, a, row, c, sums[static_cast<size_t>(row * a.n + c)]);
}

// Codes and scales of one linear with the least power-of-two scales that do not clip.
void requantise(model::TensorMap& tensors, const std::string& name) {
  model::Tensor& scale_tensor = tensors.at(name + ".scales");
  model::Tensor& code_tensor = tensors.at(name + ".codes");
  const int64_t n = code_tensor.shape[0], k = code_tensor.shape[1];
  const auto* scales = reinterpret_cast<const float*>(scale_tensor.bytes.data());
  const auto* codes = reinterpret_cast<const int8_t*>(code_tensor.bytes.data());
  std::vector<float> new_scales(scales, scales + n);
  std::vector<int8_t> new_codes(codes, codes + n * k);
  for (int64_t row = 0; row < n; ++row) {
    float& s = new_scales[static_cast<size_t>(row)];
    if (num::is_pow2(s)) continue;
    const float power = num::float_of((num::bits_of(s) & 0x7F800000u) + 0x00800000u);
    for (int64_t i = row * k; i < (row + 1) * k; ++i)
      new_codes[static_cast<size_t>(i)] = static_cast<int8_t>(num::rne(num::i2f(int32_t{codes[i]}) * s / power));
    s = power;
  }
  code_tensor = model::make_tensor(Dtype::kI8, {n, k}, new_codes);
  scale_tensor = model::make_tensor(Dtype::kF32, {n}, new_scales);
}

}  // namespace

ops::linear_s8::Fn* foreign_linear(EpilogueOrder order) {
  return order == EpilogueOrder::kCutlass ? run_foreign<EpilogueOrder::kCutlass> : run_foreign<EpilogueOrder::kTriton>;
}

Result<model::QuantizedModel> with_8bit_activations(const model::QuantizedModel& m, bool power_of_two) {
  model::QuantizedHeader header = m.header();
  header.profile = power_of_two ? "w8a8-po2" : "w8a8-free";
  header.pow2_row_scales = false;
  for (auto& [name, width] : header.linear_widths) width = 8;
  model::TensorMap tensors = m.tensors();
  tensors.erase("rope.frequencies");
  if (power_of_two)
    for (const auto& [name, tensor] : m.tensors())
      if (name.ends_with(".codes")) requantise(tensors, name.substr(0, name.size() - 6));
  return model::QuantizedModel::assemble(std::move(header), std::move(tensors), "8-bit copy of the model");
}

int64_t SpacingHistogram::total() const { return std::accumulate(count.begin(), count.end(), int64_t{0}); }
void SpacingHistogram::add(int64_t distance) { ++count[static_cast<size_t>(std::min<int64_t>(std::abs(distance), kSpacingBins - 1))]; }

namespace {

// Compares both orders on one linear's input.
class OrderComparer {
 public:
  explicit OrderComparer(OrderComparison& out) : out_(out) {}

  void compare(const model::QuantizedLinear& l, int64_t rows, const uint16_t* x, std::array<SpacingHistogram, 2> OrderHistograms::*histograms) {
    codes_.resize(static_cast<size_t>(rows * l.k));
    scales_.resize(static_cast<size_t>(rows));
    faults_.assign(static_cast<size_t>(rows), 0);
    ops::fastest_kernels().quant_rows.run({x, l.k, rows, l.k, 8, num::kLinearRange, nullptr, codes_.data(), l.k, scales_.data(), faults_.data()});
    const Args a{codes_.data(), l.k, scales_.data(), rows, l.k, 8, l.codes, l.k, l.n, l.scales, l.bias, Output::kBf16, nullptr, l.n};
    const size_t biased = l.bias ? 1 : 0;
    on_cpu(a, (out_.*histograms)[biased]);
    for (size_t i = 0; i < out_.on_device.size(); ++i)
      if (out_.on_device[i].why_not.empty()) on_device(a, ops::linear_s8::foreign_pairs()[i], (out_.on_device[i].*histograms)[biased]);
  }

 private:
  void on_cpu(const Args& a, SpacingHistogram& histogram) {
    const std::span<const int64_t> sums = exact_sums(a);
    for (int64_t row = 0; row < a.rows; ++row)
      for (int64_t c = 0; c < a.n; ++c) {
        const float f = num::i2f(sums[static_cast<size_t>(row * a.n + c)]), sa = a.row_scales[row], sb = a.channel_scales[c];
        const float* bias = a.bias ? a.bias + c : nullptr;
        histogram.add(num::ulp_distance_bf16(ops::linear_s8::foreign_bf16(EpilogueOrder::kCutlass, f, sa, sb, bias),
                                             ops::linear_s8::foreign_bf16(EpilogueOrder::kTriton, f, sa, sb, bias)));
      }
  }

  void on_device(Args a, const ops::linear_s8::ForeignPair& pair, SpacingHistogram& histogram) {
    const auto run = [&](const ops::linear_s8::OnDevice& kernel, std::vector<uint16_t>& y) {
      y.resize(static_cast<size_t>(a.rows * a.n));
      a.y = y.data();
      kernel.staged(a);
    };
    run(pair.cutlass, y_cutlass_);
    run(pair.triton, y_triton_);
    for (size_t i = 0; i < y_cutlass_.size(); ++i) histogram.add(num::ulp_distance_bf16(y_cutlass_[i], y_triton_[i]));
  }

  OrderComparison& out_;
  std::vector<int16_t> codes_;
  std::vector<float> scales_;
  std::vector<uint8_t> faults_;
  std::vector<uint16_t> y_cutlass_, y_triton_;
};

std::string why_not(const ops::linear_s8::OnDevice& kernel) { return kernel.why_not == nullptr ? "" : kernel.why_not(); }

}  // namespace

Result<OrderComparison> compare_orders(const model::QuantizedModel& arbitrary, const model::QuantizedModel& power_of_two,
                                       const std::vector<int32_t>& tokens, int threads, int device) {
  OrderComparison out;
  if (device >= 0) {
    ZU_TRY(device::use(device));
    for (const ops::linear_s8::ForeignPair& pair : ops::linear_s8::foreign_pairs()) {
      const std::string why = why_not(pair.cutlass);
      out.on_device.push_back({{}, std::string(pair.name), why.empty() ? why_not(pair.triton) : why});
    }
  }
  engine::EngineOptions options;
  options.threads = threads;
  options.max_rows = device >= 0 ? 512 : 64;  // a GPU's kernels are called with weights that must first be copied to it
  options.max_context = static_cast<int64_t>(tokens.size());
  options.max_total_positions = options.max_context;
  ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(arbitrary, options));
  OrderComparer comparer(out);
  engine->set_capture([&](int64_t layer, LinearRole role, int64_t rows, int64_t, const uint16_t* x) {
    out.inputs += rows;
    comparer.compare(arbitrary.layers()[static_cast<size_t>(layer)][role], rows, x, &OrderHistograms::arbitrary);
    comparer.compare(power_of_two.layers()[static_cast<size_t>(layer)][role], rows, x, &OrderHistograms::power_of_two);
  });
  const int64_t id = engine->open_sequence();
  const auto step = static_cast<size_t>(options.max_rows);
  for (size_t at = 0; at < tokens.size(); at += step) {
    const engine::Engine::Chunk chunk{id, std::span(tokens).subspan(at, std::min(step, tokens.size() - at)), engine::Engine::Want::kNone};
    ZU_TRY(engine->forward(std::span(&chunk, 1), [](const engine::LogitsBlock&) -> Status { return {}; }));
  }
  return out;
}

int64_t Divergence::prompts_that_part() const {
  return std::count_if(first_difference.begin(), first_difference.end(), [](int64_t d) { return d >= 0; });
}

Result<Divergence> compare_generations(const model::QuantizedModel& m, const std::vector<std::vector<int32_t>>& prompts, int64_t tokens, int threads,
                                       int device, const ops::linear_s8::ForeignPair* pair) {
  std::vector<engine::Request> requests;
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts) {
    requests.push_back({static_cast<uint64_t>(requests.size()), prompt, {}, tokens, {}});
    longest = std::max(longest, prompt.size());
  }
  Divergence d;
  d.tokens = tokens;
  std::vector<std::vector<engine::Outcome>> outcomes;
  for (const EpilogueOrder order : {EpilogueOrder::kCutlass, EpilogueOrder::kTriton}) {
    engine::EngineOptions options;
    options.threads = threads;
    if (pair == nullptr) {
      options.linear = foreign_linear(order);
    } else {
      options.device = device;
      options.device_linear = order == EpilogueOrder::kCutlass ? &pair->cutlass : &pair->triton;
    }
    options.max_context = static_cast<int64_t>(longest) + tokens;
    options.max_total_positions = (options.max_context + engine::kPagePositions) * static_cast<int64_t>(prompts.size());
    ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(m, options));
    ZU_TRY_ASSIGN(auto outcome, engine::generate(*engine, requests, static_cast<int64_t>(prompts.size()), [](const engine::Step&) { return true; }));
    if (engine->on_device() != nullptr) d.graph_nodes[outcomes.size()] = engine->on_device()->graph_nodes();
    outcomes.push_back(std::move(outcome));
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t>&a = outcomes[0][i].tokens, &b = outcomes[1][i].tokens;
    const auto [ia, ib] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    d.first_difference.push_back(ia == a.end() && ib == b.end() ? -1 : ia - a.begin());
  }
  return d;
}

}  // namespace zeroulp::verify
