#include "quant/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/interrupt.h"
#include "engine/engine.h"
#include "engine/float_decoder.h"
#include "engine/quality.h"
#include "quant/layer_weights.h"

namespace zeroulp::quant {
namespace {

constexpr int64_t kParts = 3;  // of the layers
constexpr int64_t kEngineRows = 256;

// Measures one model with its widths changed, against hidden states of the float model that are computed once.
class Divergence {
 public:
  Divergence(const model::QuantizedHeader& header, const model::TensorMap& tensors, const BudgetJob& job)
      : header_(header), tensors_(tensors), job_(job), text_{job.tokens, job.window, {}}, pool_(job.threads) {}

  Status start(const model::Checkpoint& checkpoint) {
    ZU_TRY_ASSIGN(kernels_, ops::select_kernels("", cpu_features()));
    ZU_TRY_ASSIGN(auto decoder, engine::FloatDecoder::create(checkpoint, {}, pool_));
    reference_.emplace(std::move(decoder));
    for (int64_t i = 0; i < text_.windows(); ++i) {
      const auto tokens = text_.at(i);
      sequences_.push_back(reference_->start(static_cast<int64_t>(tokens.size())));
      ZU_TRY(reference_->extend(sequences_.back(), tokens));
    }
    return {};
  }

  Result<double> measure(const std::vector<WidthGroup>& groups, const std::vector<size_t>& narrow) {
    if (interrupt_requested()) return interrupted();
    model::QuantizedHeader header = header_;
    for (const size_t g : narrow)
      for (const std::string& linear : groups[g].linears) header.linear_widths[linear] = 8;
    ZU_TRY_ASSIGN(const auto candidate, model::QuantizedModel::assemble(std::move(header), tensors_, "candidate"));
    engine::EngineOptions options;
    options.threads = job_.threads;
    options.max_rows = std::min(kEngineRows, job_.window);
    options.max_context = options.max_total_positions = job_.window;
    ZU_TRY_ASSIGN(const auto engine, engine::Engine::create(candidate, options));
    engine::QualityJob quality;
    quality.text = text_;
    quality.vocab = header_.config.vocab;
    quality.candidate = engine::decode_with(*engine);
    quality.reference = reference();
    ZU_TRY_ASSIGN(const auto result, engine::measure_quality(quality, kernels_, pool_));
    return result.kl.value;
  }

 private:
  // The windows in their order, over and over.
  engine::LogitsSource reference() {
    next_ = 0;
    return {[this](std::span<const int32_t>) -> Status {
              current_ = &sequences_[next_++];
              return {};
            },
            [this](int64_t first, int64_t rows) {
              logits_.resize(static_cast<size_t>(rows * header_.config.vocab));
              reference_->logits(*current_, first, rows, logits_.data());
              return logits_.data();
            }};
  }

  const model::QuantizedHeader& header_;
  const model::TensorMap& tensors_;
  const BudgetJob& job_;
  engine::QualityText text_;
  ThreadPool pool_;
  ops::Kernels kernels_;
  std::optional<engine::FloatDecoder> reference_;
  std::vector<engine::FloatSequence> sequences_;
  const engine::FloatSequence* current_ = nullptr;
  size_t next_ = 0;
  std::vector<float> logits_;
};

int64_t total_multiply_adds(const std::vector<WidthGroup>& groups) {
  return std::accumulate(groups.begin(), groups.end(), int64_t{0}, [](int64_t sum, const WidthGroup& g) { return sum + g.multiply_adds; });
}

io::Json to_json(const std::vector<WidthGroup>& groups, const GroupChoice& choice, const BudgetJob& job) {
  int64_t narrow = 0;
  for (const size_t g : choice.narrow) narrow += groups[g].multiply_adds;
  io::Json rises = io::Json::object();
  for (size_t g = 0; g < groups.size(); ++g) rises[groups[g].name] = choice.rises[g];
  return {{"budget_kl", job.budget},
          {"kl", choice.kl},
          {"kl_all_15", choice.wide_kl},
          {"kl_rise_alone", rises},
          {"multiply_adds_8", narrow},
          {"multiply_adds", total_multiply_adds(groups)},
          {"tokens", job.tokens.size()},
          {"window", job.window}};
}

}  // namespace

std::vector<WidthGroup> width_groups(const model::ModelConfig& c) {
  std::vector<WidthGroup> out;
  for (int r = 0; r < model::kLinearsPerLayer; ++r) {
    const auto role = static_cast<model::LinearRole>(r);
    const model::LinearShape shape = model::linear_shape(c, role);
    for (int64_t part = 0; part < std::min(kParts, c.layers); ++part) {
      const int64_t parts = std::min(kParts, c.layers), begin = c.layers * part / parts, end = c.layers * (part + 1) / parts;
      WidthGroup g;
      g.name = fmt::format("{} of layers {} to {}", model::kLinearNames[r], begin, end - 1);
      for (int64_t layer = begin; layer < end; ++layer) g.linears.push_back(linear_name(layer, role));
      g.multiply_adds = shape.n * shape.k * (end - begin);
      out.push_back(std::move(g));
    }
  }
  out.push_back({"head", {"head"}, c.vocab * c.hidden});
  return out;
}

Result<GroupChoice> choose_groups(const std::vector<WidthGroup>& groups, double budget, const Measure& measure) {
  GroupChoice out;
  const auto measured = [&](const std::vector<size_t>& narrow) {
    ++out.measurements;
    return measure(narrow);
  };
  ZU_TRY_ASSIGN(out.wide_kl, measured({}));
  if (out.wide_kl > budget)
    return answer_is_no(fmt::format("--budget {}: the KL is {:.5f} with every input at 15 bits already; give a larger budget", budget, out.wide_kl));
  for (size_t g = 0; g < groups.size(); ++g) {
    ZU_TRY_ASSIGN(const double kl, measured({g}));
    out.rises.push_back(kl - out.wide_kl);
  }
  // Cheapest per multiply-add first; a rise below zero is chance and counts as none.
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rise = [&](size_t g) { return std::max(0.0, out.rises[g]); };
  const auto price = [&](size_t g) { return rise(g) / static_cast<double>(groups[g].multiply_adds); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return price(a) < price(b); });
  double expected = out.wide_kl;
  std::vector<size_t> rest;
  for (const size_t g : order) {
    const bool fits = expected + rise(g) <= budget;
    (fits ? out.narrow : rest).push_back(g);
    if (fits) expected += rise(g);
  }
  // Rises do not add up exactly: measured together, the dearest go until the budget holds.
  out.kl = out.wide_kl;
  while (!out.narrow.empty()) {
    ZU_TRY_ASSIGN(const double kl, measured(out.narrow));
    if (kl <= budget) {
      out.kl = kl;
      break;
    }
    expected -= rise(out.narrow.back());
    out.narrow.pop_back();
  }
  // Where they add up to less, there may be room for more.
  constexpr double kDoubt = 0.9;  // of a prediction
  for (const size_t g : rest) {
    const double together = expected > out.wide_kl ? (out.kl - out.wide_kl) / (expected - out.wide_kl) : 1.0;
    if (out.kl + kDoubt * together * rise(g) > budget) continue;
    out.narrow.push_back(g);
    ZU_TRY_ASSIGN(const double kl, measured(out.narrow));
    if (kl <= budget) {
      out.kl = kl;
      expected += rise(g);
    } else {
      out.narrow.pop_back();
    }
  }
  std::sort(out.narrow.begin(), out.narrow.end());
  return out;
}

Result<WidthChoice> choose_widths(const model::Checkpoint& checkpoint, const model::QuantizedHeader& header, const model::TensorMap& tensors,
                                  const BudgetJob& job) {
  const std::vector<WidthGroup> groups = width_groups(header.config);
  Divergence divergence(header, tensors, job);
  ZU_TRY(divergence.start(checkpoint));
  int64_t done = 0;
  const auto measure = [&](const std::vector<size_t>& narrow) {
    if (job.progress) job.progress(done++, static_cast<int64_t>(groups.size()) + 2);
    return divergence.measure(groups, narrow);
  };
  ZU_TRY_ASSIGN(const GroupChoice choice, choose_groups(groups, job.budget, measure));
  WidthChoice out;
  out.widths = header.linear_widths;
  for (const size_t g : choice.narrow)
    for (const std::string& linear : groups[g].linears) out.widths[linear] = 8;
  out.measured = to_json(groups, choice, job);
  return out;
}

}  // namespace zeroulp::quant
