// Checkpoints of the compressed-tensors package: W8A8 integers, a scale per output channel, activations quantised per token at run time
// ("int-quantized"). Other schemes are refused with the key that asks for them.
//
// A linear's X.weight is then I8 [n, k] with X.weight_scale [n, 1] (or [n]) in BF16, F16 or F32; a weight is code * scale. Codes lie in -128 to 127.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/json.h"

namespace zeroulp::model {

struct CompressedTensors {
  std::vector<std::string> ignored;  // modules that stayed in floating point, "lm_head"

  // Whether the weights of this module ("model.layers.0.mlp.up_proj") are integers.
  bool quantises(std::string_view module) const;
};

inline constexpr std::string_view kWeightSuffix = ".weight", kWeightScaleSuffix = ".weight_scale";

// The quantization_config of a config.json; nothing if there is none. `name` opens error lines.
Result<std::optional<CompressedTensors>> parse_compressed_tensors(const io::Json& config, const std::string& name);

// What config.json says of a checkpoint in this form.
io::Json compressed_tensors_config(const std::vector<std::string>& ignored);

}  // namespace zeroulp::model
