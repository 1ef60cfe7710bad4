// How good a model is on a text, and how far from a reference: perplexity, divergence, agreement, window by window.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "engine/logits.h"
#include "ops/kernels.h"

namespace zeroulp::engine {

class FloatDecoder;

// The tokens to be scored. Windows do not overlap and are full, unless the text is shorter than one. With a start token each window is that
// token and `window - 1` tokens of the text. The first text token of a window without a start token is not predicted.
struct QualityText {
  std::span<const int32_t> tokens;
  int64_t window = 1024;
  std::optional<int32_t> start_token;

  int64_t text_per_window() const { return start_token ? window - 1 : window; }
  int64_t windows() const;
  std::vector<int32_t> at(int64_t index) const;
  int64_t tokens_used() const;
};

// Runs one sequence from position 0 and hands out the logits after every position.
using Decode = std::function<Status(std::span<const int32_t> tokens, const LogitsSink& sink)>;

// A reference is asked for rows of the window that was started last: [rows, vocabulary], valid until the next call.
struct LogitsSource {
  std::function<Status(std::span<const int32_t> tokens)> start;
  std::function<const float*(int64_t first, int64_t rows)> rows;
};
// Keeps a window's hidden states and computes logits when asked. The decoder must outlive it.
LogitsSource logits_of(const FloatDecoder& decoder);
// Keeps a whole window of logits.
LogitsSource stored_logits(Decode decode, int64_t vocab);

// An estimate with the ends of its 95 % confidence interval: Student's t over windows; absent when there is one window.
struct Estimate {
  double value = 0;
  std::optional<double> low, high;
};

struct Worst {
  int64_t window = 0, position = 0;  // within the window, the start token included
  double kl = 0;
};

struct Quality {
  int64_t windows = 0, positions = 0, predicted = 0;  // KL and agreement count every position; perplexity those with a target
  int64_t nll_q24 = 0;                                // -log2 of the text's probability, in units of 2^-24 bits: an exact sum
  double perplexity = 0;
  // Against a reference only.
  bool compared = false;
  int64_t reference_nll_q24 = 0;
  double reference_perplexity = 0;
  Estimate perplexity_change;  // perplexity / reference_perplexity - 1
  Estimate kl;                 // mean KL(reference || candidate) per position, nats
  Estimate top1;               // share of positions with the same likeliest token
  int64_t top1_equal = 0;
  Worst worst;
};

struct QualityJob {
  QualityText text;
  int64_t vocab = 0;
  Decode candidate;
  std::optional<LogitsSource> reference;
  std::function<void(int64_t windows_done)> progress;  // may be empty
};

// A logit that is NaN or infinite gives exit code 1 and names window and position. Nothing depends on the number of threads or on the
// candidate's block sizes.
Result<Quality> measure_quality(const QualityJob& job, const ops::Kernels& kernels, ThreadPool& pool);

// The 97.5 % quantile of Student's t.
double student_t_975(int64_t degrees_of_freedom);

}  // namespace zeroulp::engine
