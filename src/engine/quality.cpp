#include "engine/quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/interrupt.h"
#include "engine/divergence.h"
#include "engine/float_decoder.h"

namespace zeroulp::engine {
namespace {

struct PositionScore {
  int64_t nll = 0, reference_nll = 0;  // 0 without a target
  int64_t top = 0, reference_top = 0;
  double kl = 0;
};

struct WindowScore {
  int64_t positions = 0, predicted = 0, nll = 0, reference_nll = 0, top1_equal = 0;
  double kl = 0;  // sum
};

// Scores rows as they come. Every row is independent; sums are taken by ascending position.
class WindowScorer {
 public:
  WindowScorer(const QualityJob& job, const ops::Kernels& kernels, ThreadPool& pool, int64_t index)
      : job_(job), kernels_(kernels), pool_(pool), index_(index), tokens_(job.text.at(index)) {
    scores_.resize(tokens_.size());
  }

  Status run() {
    if (job_.reference) ZU_TRY(job_.reference->start(tokens_));
    ZU_TRY(job_.candidate(tokens_, [this](const LogitsBlock& block) { return take(block); }));
    ZU_CHECK(next_ == static_cast<int64_t>(tokens_.size()));
    return {};
  }

  WindowScore total(Worst& worst) const {
    WindowScore out;
    for (size_t i = 0; i < scores_.size(); ++i) {
      const PositionScore& s = scores_[i];
      ++out.positions;
      out.predicted += i + 1 < scores_.size();
      out.nll += s.nll;
      out.reference_nll += s.reference_nll;
      out.kl += s.kl;
      out.top1_equal += s.top == s.reference_top;
      if (s.kl > worst.kl) worst = {index_, static_cast<int64_t>(i), s.kl};
    }
    return out;
  }

 private:
  Status take(const LogitsBlock& block) {
    ZU_CHECK(block.first_position == next_ && next_ + block.rows <= static_cast<int64_t>(tokens_.size()));
    const float* reference = job_.reference ? job_.reference->rows(next_, block.rows) : nullptr;
    pool_.parallel_for(block.rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r)
        score(next_ + r, block.row(r), reference == nullptr ? nullptr : reference + r * job_.vocab);
    });
    for (int64_t i = next_; i < next_ + block.rows; ++i) {
      const PositionScore& s = scores_[static_cast<size_t>(i)];
      if (s.top < 0 || s.reference_top < 0)
        return answer_is_no(fmt::format("window {}, position {}: {} logits hold a value that is not finite", index_, i,
                                        s.top < 0 ? "the model's" : "the reference's"));
    }
    next_ += block.rows;
    return {};
  }

  int64_t top(const float* row) const {
    ops::argmax::Args args{row, job_.vocab};
    kernels_.argmax.run(args);
    return args.index;
  }
  int64_t nll(const float* row, int64_t position) const {
    if (position + 1 == static_cast<int64_t>(tokens_.size())) return 0;
    ops::nll::Args args{row, job_.vocab, tokens_[static_cast<size_t>(position) + 1]};
    kernels_.nll.run(args);
    return args.result;
  }

  void score(int64_t position, const float* row, const float* reference) {
    PositionScore& s = scores_[static_cast<size_t>(position)];
    s.top = s.reference_top = top(row);
    if (s.top < 0) return;
    s.nll = nll(row, position);
    if (reference == nullptr) return;
    s.reference_top = top(reference);
    if (s.reference_top < 0) return;
    s.reference_nll = nll(reference, position);
    s.kl = kl_divergence(reference, row, job_.vocab);
  }

  const QualityJob& job_;
  const ops::Kernels& kernels_;
  ThreadPool& pool_;
  const int64_t index_;
  const std::vector<int32_t> tokens_;
  std::vector<PositionScore> scores_;
  int64_t next_ = 0;
};

// The mean over all is weighted as the caller says; the interval comes from the spread of the windows' values.
Estimate with_interval(double value, const std::vector<double>& by_window) {
  Estimate out{value, std::nullopt, std::nullopt};
  const auto n = static_cast<int64_t>(by_window.size());
  if (n < 2) return out;
  double mean = 0, squares = 0;
  for (const double v : by_window) mean += v;
  mean /= static_cast<double>(n);
  for (const double v : by_window) squares += (v - mean) * (v - mean);
  const double half = student_t_975(n - 1) * std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n));
  out.low = value - half;
  out.high = value + half;
  return out;
}

double bits(int64_t nll_q24, int64_t count) { return static_cast<double>(nll_q24) / 0x1p24 / static_cast<double>(count); }

void summarise(const std::vector<WindowScore>& windows, bool compared, Quality& q) {
  std::vector<double> change, kl, top1;
  double kl_sum = 0;
  for (const WindowScore& w : windows) {
    ++q.windows;
    q.positions += w.positions;
    q.predicted += w.predicted;
    q.nll_q24 += w.nll;
    q.reference_nll_q24 += w.reference_nll;
    q.top1_equal += w.top1_equal;
    kl_sum += w.kl;
    change.push_back(bits(w.nll - w.reference_nll, w.predicted));
    kl.push_back(w.kl / static_cast<double>(w.positions));
    top1.push_back(static_cast<double>(w.top1_equal) / static_cast<double>(w.positions));
  }
  q.perplexity = std::exp2(bits(q.nll_q24, q.predicted));
  q.compared = compared;
  if (!compared) return;
  q.reference_perplexity = std::exp2(bits(q.reference_nll_q24, q.predicted));
  q.perplexity_change = with_interval(bits(q.nll_q24 - q.reference_nll_q24, q.predicted), change);
  q.perplexity_change.value = std::exp2(q.perplexity_change.value) - 1;
  for (std::optional<double>* end : {&q.perplexity_change.low, &q.perplexity_change.high})
    if (*end) *end = std::exp2(**end) - 1;
  q.kl = with_interval(kl_sum / static_cast<double>(q.positions), kl);
  q.top1 = with_interval(static_cast<double>(q.top1_equal) / static_cast<double>(q.positions), top1);
  if (q.kl.low) q.kl.low = std::max(*q.kl.low, 0.0);
  if (q.top1.high) q.top1.high = std::min(*q.top1.high, 1.0);
}

}  // namespace

int64_t QualityText::windows() const {
  const auto count = static_cast<int64_t>(tokens.size());
  return std::max<int64_t>(count / text_per_window(), count > 0 ? 1 : 0);
}

std::vector<int32_t> QualityText::at(int64_t index) const {
  const auto first = static_cast<size_t>(index * text_per_window());
  const size_t count = std::min(static_cast<size_t>(text_per_window()), tokens.size() - first);
  std::vector<int32_t> out(count + (start_token ? 1 : 0));
  if (start_token) out[0] = *start_token;
  std::copy_n(tokens.begin() + static_cast<ptrdiff_t>(first), count, out.end() - static_cast<ptrdiff_t>(count));
  return out;
}

int64_t QualityText::tokens_used() const { return std::min(static_cast<int64_t>(tokens.size()), windows() * text_per_window()); }

LogitsSource logits_of(const FloatDecoder& decoder) {
  struct State {
    FloatSequence sequence;
    std::vector<float> rows;
  };
  auto state = std::make_shared<State>();
  LogitsSource out;
  out.start = [&decoder, state](std::span<const int32_t> tokens) {
    state->sequence = decoder.start(static_cast<int64_t>(tokens.size()));
    return decoder.extend(state->sequence, tokens);
  };
  out.rows = [&decoder, state](int64_t first, int64_t rows) {
    state->rows.resize(static_cast<size_t>(rows * decoder.config().vocab));
    decoder.logits(state->sequence, first, rows, state->rows.data());
    return static_cast<const float*>(state->rows.data());
  };
  return out;
}

LogitsSource stored_logits(Decode decode, int64_t vocab) {
  auto kept = std::make_shared<std::vector<float>>();
  LogitsSource out;
  out.start = [decode = std::move(decode), kept, vocab](std::span<const int32_t> tokens) {
    kept->resize(tokens.size() * static_cast<size_t>(vocab));
    return decode(tokens, [&](const LogitsBlock& block) -> Status {
      for (int64_t r = 0; r < block.rows; ++r)
        std::memcpy(kept->data() + (block.first_position + r) * vocab, block.row(r), static_cast<size_t>(vocab) * sizeof(float));
      return {};
    });
  };
  out.rows = [kept, vocab](int64_t first, int64_t) { return static_cast<const float*>(kept->data() + first * vocab); };
  return out;
}

Result<Quality> measure_quality(const QualityJob& job, const ops::Kernels& kernels, ThreadPool& pool) {
  ZU_CHECK(job.text.window >= 2 && job.vocab >= 1);
  const int64_t count = job.text.windows();
  if (count == 0 || job.text.at(0).size() < 2) return unavailable(fmt::format("{} tokens are too few: nothing to measure", job.text.tokens.size()));
  Quality out;
  std::vector<WindowScore> windows;
  for (int64_t i = 0; i < count; ++i) {
    if (interrupt_requested()) return interrupted();
    WindowScorer scorer(job, kernels, pool, i);
    ZU_TRY(scorer.run());
    windows.push_back(scorer.total(out.worst));
    if (job.progress) job.progress(i + 1);
  }
  summarise(windows, job.reference.has_value(), out);
  return out;
}

double student_t_975(int64_t n) {
  constexpr double kTable[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281};
  ZU_CHECK(n >= 1);
  if (n <= 10) return kTable[n - 1];
  // The expansion of t around the normal quantile in powers of 1/n; below 1e-5 off from n = 11 on.
  const double z = 1.959963984540054, z2 = z * z, d = static_cast<double>(n);
  return z * (1 + (z2 + 1) / (4 * d) + ((5 * z2 + 16) * z2 + 3) / (96 * d * d) + (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * d * d * d) +
              ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / (92160 * d * d * d * d));
}

}  // namespace zeroulp::engine
