// Where two runs part first: the first op in the order of computing whose output differs, and its first differing element.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/trace.h"
#include "verify/digests.h"
#include "verify/signature.h"

namespace zeroulp::verify {

struct FirstDifference {
  int64_t sequence = 0, position = 0, layer = 0;
  engine::TraceOp op = engine::TraceOp::kEmbedding;
  int32_t token = 0;        // that stands at the position
  int64_t index = 0;        // of the first differing element in the op's row
  uint32_t a = 0, b = 0;    // the bits there: bf16, the head's fp32
  int64_t differing = 0, width = 0;  // elements of the row
  int64_t rows = 0, rows_differing = 0;  // of the sequence, at this op (of the head: from the first that differs on, kHeadRowsKept at most)
  Likely likely;                         // from what all of these rows look like

  bool in_fp32() const { return op == engine::TraceOp::kHead; }
  std::string text() const;
  std::string hex(uint32_t bits) const;  // "0x3f80"
};

inline constexpr int64_t kHeadRowsKept = 64;  // a row of logits is as wide as the vocabulary

// Runs the workload under both configurations, twice each: digests of every op's rows first, then the values of the one op at which the two
// part. An op whose inputs agree and whose output does not is where the cause lies; what differs after it is its consequence. Ops that only
// one run traced whole (sharded ones, when the tensor-parallel degrees differ) are passed over. Nothing: no op differs.
Result<std::optional<FirstDifference>> locate(const model::QuantizedModel& model, const Workload& workload, const RunConfig& a, const RunConfig& b,
                                              engine::Plant plant);

}  // namespace zeroulp::verify
