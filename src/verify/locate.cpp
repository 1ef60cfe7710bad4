#include "verify/locate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "num/bf16.h"
#include "num/bits.h"

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
                  trace[place_of(p)] = {p.width, num::xxh3_128(p.bytes()).low};
                }));
  return trace;
}

// The op's rows of the sequence up to position `end`, by position.
using Rows = std::map<int64_t, std::vector<std::byte>>;
Result<Rows> values_at(const model::QuantizedModel& model, const Workload& work, const RunConfig& config, engine::Plant plant,
                       const Place& place, int64_t end) {
  const auto& [layer, op, sequence, first] = place;
  int64_t begin = 0;
  if (op == TraceOp::kHead) begin = first, end = std::min(end, first + kHeadRowsKept);
  Rows values;
  ZU_TRY(run_digests(model, work, config, plant, nullptr, [&, layer = layer, op = op, sequence = sequence](const TracePoint& p) {
    if (p.layer == layer && p.op == op && p.sequence == sequence && p.position >= begin && p.position < end)
      values[p.position].assign(p.bytes().begin(), p.bytes().end());
  }));
  return values;
}

uint32_t bits_at(const std::vector<std::byte>& row, size_t size, int64_t i) {
  uint32_t bits = 0;
  std::memcpy(&bits, row.data() + static_cast<size_t>(i) * size, size);  // little-endian, as the digests are
  return bits;
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

std::string FirstDifference::hex(uint32_t bits) const { return in_fp32() ? fmt::format("0x{:08x}", bits) : fmt::format("0x{:04x}", bits); }

std::string FirstDifference::text() const {
  const auto value = [this](uint32_t bits) { return in_fp32() ? num::float_of(bits) : num::bf16_to_float(static_cast<uint16_t>(bits)); };
  return fmt::format("layer {}, {}, sequence {}, position {} (token {}), element {}: {} ({}) against {} ({}); {} of the row's {} elements and {} of {} rows differ; likeliest cause: {}",
                     layer, engine::kTraceOpNames[static_cast<size_t>(op)], sequence, position, token, index, value(a), hex(a),
                     value(b), hex(b), differing, width, rows_differing, rows, likely.text());
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
  ZU_TRY_ASSIGN(const Rows values_a, values_at(model, work, a, plant, *place, end));
  ZU_TRY_ASSIGN(const Rows values_b, values_at(model, work, b, plant, *place, end));
  const size_t size = d.in_fp32() ? sizeof(float) : sizeof(uint16_t);
  // A difference that comes and goes between two runs of one configuration: a race, which the digests of the first runs have shown.
  d.index = -1;
  std::vector<std::byte> all_a, all_b;
  for (const auto& [position, row_a] : values_a) {
    const auto row_b = values_b.find(position);
    if (row_b == values_b.end() || row_b->second.size() != row_a.size()) continue;
    all_a.insert(all_a.end(), row_a.begin(), row_a.end());
    all_b.insert(all_b.end(), row_b->second.begin(), row_b->second.end());
    ++d.rows;
    d.rows_differing += row_a != row_b->second;
    if (position != d.position) continue;
    d.width = static_cast<int64_t>(row_a.size() / size);
    for (int64_t i = 0; i < d.width; ++i) {
      const uint32_t x = bits_at(row_a, size, i), y = bits_at(row_b->second, size, i);
      if (x == y) continue;
      if (d.differing++ == 0) d.index = i, d.a = x, d.b = y;
    }
  }
  if (d.rows > 0)
    d.likely = likely_fault({op_of(d.op), d.in_fp32() ? Element::kF32 : Element::kBf16, d.rows, static_cast<int64_t>(all_a.size() / size) / d.rows, all_a.data(), all_b.data()});
  return std::optional(d);
}

}  // namespace zeroulp::verify
