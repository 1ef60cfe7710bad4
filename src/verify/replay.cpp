#include "verify/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace zeroulp::verify {

Status compute(const model::QuantizedModel& model, const RunConfig& config, engine::Plant plant, RunLog& log) {
  // A GPU keeps its residual stream to itself.
  log.layers = config.device < 0 ? model.config().layers : 0;
  log.residuals.clear();
  const engine::TraceFn trace = [&log](const engine::TracePoint& p) {
    if (p.op != engine::TraceOp::kAttentionResidual && p.op != engine::TraceOp::kMlpResidual) return;
    auto& row = log.residuals[{p.sequence, p.position}];
    row.resize(static_cast<size_t>(2 * log.layers));
    const auto at = static_cast<size_t>(2 * p.layer + (p.op == engine::TraceOp::kMlpResidual ? 1 : 0));
    row[at] = num::digest_of(std::span(p.values, static_cast<size_t>(p.width))).low;
  };
  ZU_TRY_ASSIGN(log.log, run_digests(model, log.workload, config, plant, nullptr, log.layers > 0 ? trace : engine::TraceFn()));
  return {};
}

std::string LayerDifference::text() const {
  return fmt::format("layer {}, residual after {}, position {} of sequence {}; likeliest cause, from which positions differ alone: {}", layer,
                     after_mlp ? "MLP" : "attention", position, sequence, likely.text());
}

namespace {

// Up to where two logs of a sequence have the same tokens before them.
int64_t common_length(const RunLog& a, const RunLog& b, size_t sequence) {
  const auto &x = a.log.tokens[sequence], &y = b.log.tokens[sequence];
  return static_cast<int64_t>(a.workload.prompts[sequence].size()) + (std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin());
}

Likely likely_at(const RunLog& a, const RunLog& b, int64_t sequence, int64_t word) {
  std::vector<bool> differs;
  const int64_t end = common_length(a, b, static_cast<size_t>(sequence));
  for (const auto& [key, row] : a.residuals) {
    const auto other = b.residuals.find(key);
    if (key.first == sequence && key.second < end && other != b.residuals.end())
      differs.push_back(row[static_cast<size_t>(word)] != other->second[static_cast<size_t>(word)]);
  }
  return likely_fault(word % 2 == 1 ? kLogMlp : kLogAttention, features_of_rows(differs, word / 2));
}

}  // namespace

std::optional<LayerDifference> first_layer_difference(const RunLog& a, const RunLog& b) {
  if (a.layers != b.layers) return std::nullopt;
  for (int64_t word = 0; word < 2 * a.layers; ++word)
    for (const auto& [key, row] : a.residuals) {
      const auto sequence = static_cast<size_t>(key.first), at = static_cast<size_t>(word);
      const auto other = b.residuals.find(key);
      if (other == b.residuals.end() || row[at] == other->second[at]) continue;
      if (key.second >= common_length(a, b, sequence)) continue;
      return LayerDifference{word / 2, key.first, key.second, word % 2 == 1, likely_at(a, b, key.first, word)};
    }
  return std::nullopt;
}

std::string Replay::verdict() const {
  if (holds()) return fmt::format("the same bits at all {} positions, and the same tokens", difference.compared);
  if (difference.compared == 0) return "nothing was compared";
  std::string text = difference.differing == 0
                         ? std::string("the logits have the same bits, but the tokens differ")
                         : fmt::format("{} of {} positions have other bits, first position {} of sequence {}", difference.differing, difference.compared,
                                       difference.first.second, difference.first.first);
  if (first_layer) text += fmt::format("; the first divergence is in {}", first_layer->text());
  if (first_token >= 0) text += fmt::format("; generated token {} of sequence {} is another", first_token, first_token_sequence);
  return text;
}

Result<Replay> replay(const model::QuantizedModel& model, const RunLog& log, const RunConfig& config, engine::Plant plant) {
  if (log.contract != model::kContract) return bad_input(fmt::format("the log is of contract {}, this build computes {}", in_quotes(log.contract), model::kContract));
  if (log.model_identity != model.identity())
    return bad_input(fmt::format("the log is of the model {}, this one is {}", in_quotes(log.model_identity), model.identity()));
  RunLog computed;
  computed.workload = log.workload;
  ZU_TRY(compute(model, config, plant, computed));
  const DigestLog& here = computed.log;
  Replay r{config, here.kernels, compare(log.log, here), first_layer_difference(log, computed), -1, -1};
  for (size_t i = 0; i < here.tokens.size() && r.first_token < 0; ++i)
    for (size_t t = 0; t < std::min(here.tokens[i].size(), log.log.tokens[i].size()) && r.first_token < 0; ++t)
      if (here.tokens[i][t] != log.log.tokens[i][t]) r.first_token_sequence = static_cast<int64_t>(i), r.first_token = static_cast<int64_t>(t);
  return r;
}

}  // namespace zeroulp::verify
