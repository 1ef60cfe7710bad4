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

Result<std::vector<uint16_t>> values_at(const model::QuantizedModel& model, const Workload& work, const RunConfig& config, engine::Plant plant,
                                        const Place& place) {
  std::vector<uint16_t> values;
  ZU_TRY(run_digests(model, work, config, plant, nullptr, [&](const TracePoint& p) {
    if (place_of(p) == place) values.assign(p.values, p.values + p.width);
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

}  // namespace

std::string FirstDifference::text() const {
  return fmt::format("layer {}, {}, sequence {}, position {} (token {}), element {}: {} (0x{:04x}) against {} (0x{:04x}); {} of the row's {} elements differ",
                     layer, engine::kTraceOpNames[static_cast<size_t>(op)], sequence, position, token, index, num::bf16_to_float(a), a,
                     num::bf16_to_float(b), b, differing, width);
}

Result<std::optional<FirstDifference>> locate(const model::QuantizedModel& model, const Workload& work, const RunConfig& a, const RunConfig& b,
                                              engine::Plant plant) {
  DigestLog log_a, log_b;
  ZU_TRY_ASSIGN(const Trace trace_a, trace_of(model, work, a, plant, log_a));
  ZU_TRY_ASSIGN(const Trace trace_b, trace_of(model, work, b, plant, log_b));
  const std::optional<Place> place = first_that_differs(trace_a, trace_b, common_lengths(work, log_a, log_b));
  if (!place) return std::optional<FirstDifference>();
  FirstDifference d;
  std::tie(d.layer, d.op, d.sequence, d.position) = *place;
  std::vector<int32_t> tokens = work.prompts[static_cast<size_t>(d.sequence)];
  const auto& generated = log_a.tokens[static_cast<size_t>(d.sequence)];
  tokens.insert(tokens.end(), generated.begin(), generated.end());
  d.token = tokens[static_cast<size_t>(d.position)];
  ZU_TRY_ASSIGN(const std::vector<uint16_t> values_a, values_at(model, work, a, plant, *place));
  ZU_TRY_ASSIGN(const std::vector<uint16_t> values_b, values_at(model, work, b, plant, *place));
  // A difference that comes and goes between two runs of one configuration: a race, which the digests of the first runs have shown.
  d.width = static_cast<int64_t>(std::min(values_a.size(), values_b.size()));
  d.index = -1;
  for (int64_t i = 0; i < d.width; ++i) {
    const uint16_t x = values_a[static_cast<size_t>(i)], y = values_b[static_cast<size_t>(i)];
    if (x == y) continue;
    if (d.differing++ == 0) d.index = i, d.a = x, d.b = y;
  }
  return std::optional(d);
}

}  // namespace zeroulp::verify
