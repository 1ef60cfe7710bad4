// A quantised model of 8-bit activations as a checkpoint of the compressed-tensors package (compressed_tensors.h): the same codes and scales.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "model/quantized_model.h"

namespace zeroulp::model {

struct CompressedExport {
  int64_t tensors = 0;
  uint64_t bytes = 0;
  std::vector<std::string> notes;  // what the form cannot say
};

// `source`: the model's folder, whose config.json and tokenizer files go along. Refused: inputs of 15 bits in a layer, norms of queries and keys that
// differ between heads.
Result<CompressedExport> export_compressed(const QuantizedModel& model, const std::filesystem::path& source, const std::filesystem::path& out, bool force);

}  // namespace zeroulp::model
