// How a decoder hands out logits: in blocks of rows, so that no one holds a window's worth of a large vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"

namespace zeroulp::engine {

struct LogitsBlock {
  int64_t sequence = 0;  // which sequence of the batch
  int64_t first_position = 0;
  int64_t rows = 0;
  const float* logits = nullptr;  // [rows, vocabulary], row r at logits + r * stride; valid during the call
  int64_t stride = 0;

  const float* row(int64_t r) const { return logits + r * stride; }
};

// Receives a sequence's blocks by ascending position. An error ends the run and is passed on.
using LogitsSink = std::function<Status(const LogitsBlock&)>;

}  // namespace zeroulp::engine
