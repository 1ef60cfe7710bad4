#include "verify/locate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "num/bf16.h"

namespace zeroulp::verify {
namespace {

using engine::TraceOp;
using engine::TracePoint;

// Layer and op come first: the order in which a model computes.
using Place = std::tuple<int64_t, TraceOp, int64_t, int64_t>;  // layer, op, sequence, position
Place place_of(const TracePoint& p) { return {p.layer, p.op, p.sequence, p.position}; }

struct Row {
  int64_t width;
  uint64_t digest;
  bool operator==(const Row&) const = default;
};
using Trace = std::map<Place, Row>;

Result<Trace> trace_of(const model::QuantizedModel& model, const Workload& work, const RunConfig& config, engine::Plant plant, DigestLog& log) {
  Trace trace;
  ZU_TRY_ASSIGN(log, run_digests(model, work, config, plant, nullptr, [&](const TracePoint& p) {
                  trace[place_of(p)] = {p.width, num::digest_of(std::span(p.values, static_cast<size_t>(p.width))).low};
                }));
  return trace;
}

// The op's rows of the sequence up to position `end`, by position.
Result<std::map<int64_t, std::vector<uint16_t>>> values_at(const model::QuantizedModel& model, const Workload& work, const RunConfig& config, engine::Plant plant,
                                                           const Place& place, int64_t end) {
  std::map<int64_t, std::vector<uint16_t>> values;
  ZU_TRY(run_digests(model, work, config, plant, nullptr, [&](const TracePoint& p) {
    if (p.layer == std::get<0>(place) && p.op == std::get<1>(place) && p.sequence == std::get<2>(place) && p.position < end)
      values[p.position].assign(p.values, p.values + p.width);
  }));
  return values;
}

// Per sequence the position of the first token that is another: from there on the two compute other things.
std::vector<int64_t> common_lengths(const Workload& work, const DigestLog& a, const DigestLog& b) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < work.prompts.size(); ++i) {
    const auto& [x, y] = std::tie(a.tokens[i], b.tokens[i]);
    out.push_back(static_cast<int64_t>(work.prompts[i].size()) + (std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin()));
  }
  return out;
}

std::optional<Place> first_that_differs(const Trace& a, const Trace& b, const std::vector<int64_t>& lengths) {
  for (const auto& [place, row] : a) {
    if (std::get<3>(place) >= lengths[static_cast<size_t>(std::get<2>(place))]) continue;
    const auto other = b.find(place);
    if (other != b.end() && other->second.width == row.width && other->second.digest != row.digest) return place;
  }
  return std::nullopt;
}

// The op as ops/conformance.h names it.
std::string_view op_of(TraceOp op) {
  switch (op) {
    case TraceOp::kEmbedding: return "embedding";
    case TraceOp::kInputNorm:
    case TraceOp::kPostNorm:
    case TraceOp::kFinalNorm: return "rmsnorm";
    case TraceOp::kQRope:
    case TraceOp::kKRope: return "rope";
    case TraceOp::kAttention: return "attention";
    case TraceOp::kAttentionResidual:
    case TraceOp::kMlpResidual: return "residual";
    case TraceOp::kSiluMul: return "silu_mul";
    default: return "linear_s8";
  }
}

}  // namespace

std::string FirstDifference::text() const {
  return fmt::format("layer {}, {}, sequence {}, position {} (token {}), element {}: {} (0x{:04x}) against {} (0x{:04x}); {} of the row's {} elements and {} of {} rows differ; likeliest cause: {}",
                     layer, engine::kTraceOpNames[static_cast<size_t>(op)], sequence, position, token, index, num::bf16_to_float(a), a,
                     num::bf16_to_float(b), b, differing, width, rows_differing, rows, likely.text());
}

Result<std::optional<FirstDifference>> locate(const model::QuantizedModel& model, const Workload& work, const RunConfig& a, const RunConfig& b,
                                              engine::Plant plant) {
  DigestLog log_a, log_b;
  ZU_TRY_ASSIGN(const Trace trace_a, trace_of(model, work, a, plant, log_a));
  ZU_TRY_ASSIGN(const Trace trace_b, trace_of(model, work, b, plant, log_b));
  const std::vector<int64_t> lengths = common_lengths(work, log_a, log_b);
  const std::optional<Place> place = first_that_differs(trace_a, trace_b, lengths);
  if (!place) return std::optional<FirstDifference>();
  FirstDifference d;
  std::tie(d.layer, d.op, d.sequence, d.position) = *place;
  std::vector<int32_t> tokens = work.prompts[static_cast<size_t>(d.sequence)];
  const auto& generated = log_a.tokens[static_cast<size_t>(d.sequence)];
  tokens.insert(tokens.end(), generated.begin(), generated.end());
  d.token = tokens[static_cast<size_t>(d.position)];
  const int64_t end = lengths[static_cast<size_t>(d.sequence)];
  ZU_TRY_ASSIGN(auto values_a, values_at(model, work, a, plant, *place, end));
  ZU_TRY_ASSIGN(auto values_b, values_at(model, work, b, plant, *place, end));
  // A difference that comes and goes between two runs of one configuration: a race, which the digests of the first runs have shown.
  d.index = -1;
  std::vector<uint16_t> all_a, all_b;
  for (const auto& [position, row_a] : values_a) {
    const auto row_b = values_b.find(position);
    if (row_b == values_b.end() || row_b->second.size() != row_a.size()) continue;
    all_a.insert(all_a.end(), row_a.begin(), row_a.end());
    all_b.insert(all_b.end(), row_b->second.begin(), row_b->second.end());
    ++d.rows;
    d.rows_differing += row_a != row_b->second;
    if (position != d.position) continue;
    d.width = static_cast<int64_t>(row_a.size());
    for (int64_t i = 0; i < d.width; ++i) {
      const uint16_t x = row_a[static_cast<size_t>(i)], y = row_b->second[static_cast<size_t>(i)];
      if (x == y) continue;
      if (d.differing++ == 0) d.index = i, d.a = x, d.b = y;
    }
  }
  if (d.rows > 0)
    d.likely = likely_fault({op_of(d.op), Element::kBf16, d.rows, static_cast<int64_t>(all_a.size()) / d.rows, all_a.data(), all_b.data()});
  return std::optional(d);
}

}  // namespace zeroulp::verify
