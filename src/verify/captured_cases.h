// Cases whose inputs a model gave: what an op is called with while the model reads a text.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cases/forms.h"
#include "model/quantized_model.h"

namespace zeroulp::verify {

inline constexpr int64_t kCapturedCases = 64;

// At most `count` of the calls of the form's op in one forward pass over `tokens`, spread evenly over the pass and numbered from `first` on.
// The ops on logits see those of every token.
Result<std::vector<cases::Case>> captured_cases(const model::QuantizedModel& model, const std::vector<int32_t>& tokens, const cases::Form& form, int64_t first,
                                                int64_t count);

}  // namespace zeroulp::verify
