// The main job: is it still the same model? Digests over every axis, foreign epilogues under two kinds of scales, quality.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/quality.h"
#include "model/checkpoint.h"
#include "verify/axes.h"
#include "verify/foreign.h"
#include "verify/locate.h"

namespace zeroulp::verify {

// What is run, and how much of it.
struct Effort {
  int max_runs = 40;                 // of the covering array
  bool reference_in_array = true;    // else the reference kernel computes the baseline only
  int64_t decode_tokens = 8;         // after each prompt of the digest workload
  std::vector<int64_t> prompt_lengths = {127, 128, 129, 300, 1, 40, 17, 65};
  int64_t order_tokens = 1024;       // whose layer inputs are captured for the epilogues
  int64_t prompts = 16, generated = 128;
  int64_t quality_tokens = 20480, window = 1024;

  static Effort quick();
  static Effort full(int64_t weight_bytes);  // larger models get a shorter covering array
};

struct Request {
  const model::QuantizedModel* model = nullptr;
  const model::Checkpoint* reference = nullptr;  // float weights to measure quality against; null: skipped
  std::vector<int32_t> tokens;                   // of ordinary text: material for every part
  std::string text_name, text_sha256;
  Effort effort;
  int threads = 1;
  int device = -1;  // a GPU whose rows join the digest table and which measures the quality, and whose kernels
                    // have the foreign epilogues; -1: none
  engine::Plant plant = engine::Plant::kNone;
  bool digests = true;  // else only the foreign epilogues are run
  bool locate = false;  // when some run's bits differ: find the first op that differs
  // Runs the workload with so many MPI processes as tensor-parallel ranks; empty: skipped, for the reason given.
  std::function<Result<DigestLog>(const Workload& workload, int ranks)> under_mpi;
  std::string why_no_mpi;
};

struct Answer {
  bool has_digests = true;
  DigestTable digests;
  OrderComparison orders;
  struct Parting {
    std::string kernels;  // empty: the CPU, by the rule
    Divergence arbitrary, power_of_two;
  };
  std::vector<Parting> partings;
  std::optional<engine::Quality> quality;
  std::optional<FirstDifference> first_difference;
  RunConfig located_in;              // the run that it was found in, against the baseline
  std::vector<std::string> skipped;  // what was not run, and why
  bool has_bias = false;

  // The bits are equal over all axes, and power-of-two scales made the two epilogues agree wherever no bias is added.
  bool holds() const;
  std::string verdict() const;
};

struct Callbacks {
  std::function<void(const std::string& step, int64_t done, int64_t total)> progress;
};

Result<Answer> verify(const Request& request, const Callbacks& callbacks);

// Prompts of the given lengths cut from the text; those of 127 to 300 tokens share their beginning, so that a prefix cache has work.
Workload make_workload(const std::vector<int32_t>& tokens, const std::vector<int64_t>& lengths, int64_t decode_tokens);

// A workload as `zeroulp digest` reads it.
io::Json workload_to_json(const Workload& workload);
Result<Workload> workload_from_json(const io::Json& json, const std::string& name);

}  // namespace zeroulp::verify
