// Where the table of signatures comes from: every fault of the catalogue on seeded models, and what its outputs look like.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "verify/faults/registry.h"
#include "verify/signature.h"

namespace zeroulp::verify {

struct Sample {
  std::string_view seen_at;  // the op in whose output the fault is seen
  const Fault* fault = nullptr;
  Features features{};
};

// Outputs of seeded models (three families, biases, both widths) and, seen at "log attention" and "log MLP", which rows of the residual stream
// differ first. Models and layers of the two sets have nothing in common.
Result<std::vector<Sample>> training_samples(int threads);
Result<std::vector<Sample>> held_out_samples(int threads);

// The rows of signature_table.inc, learnt from samples.
std::string signature_table(const std::vector<Sample>& samples);

// How often the likeliest class is the fault's.
struct Accuracy {
  std::string_view seen_at;
  int64_t right = 0, judged = 0;
};
std::vector<Accuracy> accuracy_of(const std::vector<Sample>& samples);  // per place, in order of first appearance

}  // namespace zeroulp::verify
