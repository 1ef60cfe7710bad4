// The files of a fault study, one per fault and one of the model without a fault. They are kept over weeks and copied about, so nothing in them is
// trusted: what does not follow from the plan, the registry and the file's own counts is refused, exit code 3, in a line that says what to remove.
#pragma once

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "verify/faults/study.h"

namespace zeroulp::verify {

// What every file of a folder must agree with.
struct StudyPlan {
  StudyEffort effort;
  int64_t vocab = 0;
  bool biases = false;
  std::string profile;
  io::Json key;  // written into each file: model, text, threads, registry, effort
};

// What a model says, with a fault or without.
struct StudyText {
  std::vector<std::vector<int32_t>> tokens;  // generated, per prompt
  double perplexity = 0;
};

// A letter per gate, as in Fault::predicted, from what was measured. `right`: the perplexity without a fault.
std::string letters(const Fault& fault, const FaultResult& result, const StudyEffort& effort, double right);

// Nothing where there is no file.
Result<std::optional<StudyText>> read_baseline(const std::filesystem::path& path, const StudyPlan& plan);
Status write_baseline(const std::filesystem::path& path, const StudyPlan& plan, const StudyText& text);
Result<std::optional<FaultResult>> read_result(const std::filesystem::path& path, const StudyPlan& plan, const Fault& fault, double right);
Status write_result(const std::filesystem::path& path, const StudyPlan& plan, const Fault& fault, const FaultResult& result);

}  // namespace zeroulp::verify
