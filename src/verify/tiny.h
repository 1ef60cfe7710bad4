// The tiny seeded models and their workload: what is compared between compilers, processors and launches, with no file at hand.
#pragma once

#include <string_view>

#include "base/result.h"
#include "verify/digests.h"

namespace zeroulp::verify {

inline constexpr std::string_view kTinyFamilies[] = {"llama", "qwen2", "qwen3"};

// Both activation widths, both key widths, biases (qwen2), QK-norm and a window (qwen3), tied and untied heads.
Result<model::QuantizedModel> tiny_model(std::string_view family);
Workload tiny_workload();

}  // namespace zeroulp::verify
