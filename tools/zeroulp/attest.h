// verify --record and verify --replay: one machine's run, computed again on another.
#pragma once

#include <cstdint>
#include <optional>
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

// The secret in a file, of 16 bytes or more; none for no file.
Result<std::optional<std::string>> read_key(const std::string& file);

// Runs prompts of the text and writes the log.
Result<int> record_run(const AttestOptions& options);
// Runs the log's prompts; exit code 1 when some bit is another.
Result<int> replay_run(const AttestOptions& options);

}  // namespace zeroulp::cli
