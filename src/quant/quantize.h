// Hugging Face folder to quantised model (docs/spec/model.md). The same inputs give the same bytes on every machine and for any number of
// threads; an interrupted conversion can go on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/checkpoint.h"
#include "quant/options.h"

namespace zeroulp::quant {

struct Job {
  std::filesystem::path out;
  Options options;
  Calibration calibration;  // no tokens: none
  int threads = 1;
  bool force = false, resume = false;
  // Called between layers, or measurements: what is being done, and how many of how many are done.
  std::function<void(std::string_view stage, int64_t done, int64_t total)> progress;
};

struct Outcome {
  std::string identity;
  std::string profile;  // the container's
  int64_t weight_bytes = 0;
  int64_t layers_resumed = 0;  // taken over from an interrupted conversion
  int64_t codes_saturated = 0; // of an int8 checkpoint: codes of -128, which became -127
  io::Json width_choice;       // what --budget measured; null without it
};

Result<Outcome> quantize(const model::Checkpoint& checkpoint, const Job& job);

// Whether an interrupted conversion to `out` has left what Job::resume can go on with.
bool interrupted_conversion(const std::filesystem::path& out);

// SHA-256 over the checkpoint's tensors by name: types, shapes, bytes.
std::string source_identity(const model::Checkpoint& checkpoint);

}  // namespace zeroulp::quant
