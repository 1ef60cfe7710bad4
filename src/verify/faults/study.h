// The fault study: a model under one fault after another, and what each gate notices. What is measured of a fault goes into a file of its own, so
// that a stopped study goes on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/faults/gates.h"

namespace zeroulp::verify {

// How much of a model is run. Part of what makes two results comparable.
struct StudyEffort {
  int64_t captured = 300;  // tokens whose op inputs are kept: three blocks of keys
  int64_t layers = 4;      // at so many layers
  int64_t prompts = 16, prompt_length = 24, generated = 128;
  int64_t quality_tokens = 4096, window = 1024;
  bool asks_text() const { return prompts > 0; }
  bool operator==(const StudyEffort&) const = default;
  StudyEffort outputs_only() const;  // the gates on text are not asked: minutes, not an hour
  static StudyEffort tiny();  // for tests
};

struct StudyRequest {
  const model::QuantizedModel* model = nullptr;
  std::vector<int32_t> tokens;  // of ordinary text
  std::string text_name, text_sha256;
  StudyEffort effort;
  int threads = 1;
  std::filesystem::path folder;      // one file per fault, and baseline.json; made where it is not there
  std::vector<std::string> only;     // names of faults; empty: all
};

// What was measured of one fault.
struct FaultResult {
  std::string name;
  std::string measured;    // a letter per gate, as in Fault::predicted
  Apart apart;             // on captured inputs
  std::string suite_case;  // the first case that rejects it; empty: none does
  std::string refused;     // the engine met a value outside the contract's ranges and stopped: both gates on text notice
  int64_t prompts = 0, parted = 0, first_token = -1;  // prompts whose text parts, and the earliest token where one does
  double perplexity = 0;
  std::vector<Features> features;  // of the outputs that differ
  int64_t recognised() const;      // of these, whose likeliest class is the fault's
  double seconds = 0;
};

struct Study {
  std::string model_identity, profile, model_name, text_name, text_sha256;
  StudyEffort effort;
  int threads = 0;
  bool biases = false;
  double perplexity = 0;  // of the model without a fault
  std::vector<FaultResult> results;  // in the registry's order
  int64_t missing = 0;               // faults that were not run

  // A prediction that came out otherwise, of a gate that was asked.
  bool missed(const FaultResult& result, size_t gate) const;
  // Every fault is rejected by equality on the suite's inputs.
  bool holds() const;
};

struct StudyCallbacks {
  std::function<void(const std::string& step, int64_t done, int64_t total)> progress;
};

// Measures what the folder does not hold yet, and reads the rest. A file of another fault, model, text, effort or
// registry is refused, and so is one that nobody but a damaged disk or an editor can have written (study_files.h).
Result<Study> run_study(const StudyRequest& request, const StudyCallbacks& callbacks);

}  // namespace zeroulp::verify
