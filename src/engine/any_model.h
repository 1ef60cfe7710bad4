// A model folder of either kind, float or quantised, as something that gives logits: what quality is measured on.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/float_decoder.h"
#include "engine/quality.h"
#include "io/json.h"

namespace zeroulp::engine {

class AnyModel {
 public:
  struct Options {
    int threads = 1;
    std::string kernel;                                    // of a quantised model; see ops::select_kernels
    int device = -1;                                       // of a quantised model: a GPU's index; -1: this processor
    FloatDecoder::Mode mode = FloatDecoder::Mode::kBf16;   // of a float model
    int64_t positions = 1024;                              // of the longest sequence
  };
  // A folder with zeroulp.json is a quantised model, whose identity is verified; any other must be a Hugging Face folder.
  static Result<AnyModel> open(const std::filesystem::path& folder, const Options& options);
  AnyModel(AnyModel&&) noexcept;
  AnyModel& operator=(AnyModel&&) noexcept;
  ~AnyModel();

  const model::ModelConfig& config() const;
  bool quantized() const;
  std::string kind() const;                     // "bf16", "f32", or the profile
  std::string identity() const;                 // of a quantised model; empty for a float one
  const io::Json& recipe() const;               // of a quantised model; null for a float one
  std::vector<std::string> kernels() const;     // that a quantised model runs
  const std::vector<std::string>& notes() const;  // for stderr

  // Both refer to this model, which must outlive them and stay where it is.
  Decode decode();
  LogitsSource source();

 private:
  struct Impl;
  explicit AnyModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Refuses (exit code 3) to measure a model on tokens that its conversion looked at: `recipe` is zeroulp.json's, the tokens measured are
// [first, first + count) of the text file with this SHA-256.
Status refuse_calibration_overlap(const io::Json& recipe, const std::string& text_sha256, int64_t first, int64_t count);

}  // namespace zeroulp::engine
