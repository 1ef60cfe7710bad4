// verify --record and verify --replay: one machine's run, computed again on another.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "engine/plant.h"

namespace zeroulp::cli {

struct AttestOptions {
  std::string model, text, record, replay, key_file, json, kernel, device;
  int64_t threads = 1, decode = 32;
  double temperature = 0;
  uint64_t seed = 0;
  bool force = false;
  engine::Plant plant = engine::Plant::kNone;
};

// Runs prompts of the text and writes the log.
Result<int> record_run(const AttestOptions& options);
// Runs the log's prompts; exit code 1 when some bit is another.
Result<int> replay_run(const AttestOptions& options);

}  // namespace zeroulp::cli
