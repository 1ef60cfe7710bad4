#include "verify/tiny.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/seeded.h"

namespace zeroulp::verify {
namespace {

constexpr int64_t kVocab = 61;

}  // namespace

Result<model::QuantizedModel> tiny_model(std::string_view family) {
  if (std::find(std::begin(kTinyFamilies), std::end(kTinyFamilies), family) == std::end(kTinyFamilies))
    return usage_error(fmt::format("there is no seeded model '{}'; there are {}", family, fmt::join(kTinyFamilies, ", ")));
  model::SeededShape s;
  s.architecture = family;
  s.hidden = 48, s.intermediate = 80, s.heads = 6, s.kv_heads = 2, s.head_dim = 16, s.vocab = kVocab, s.width = 0, s.key_width = 0;
  if (family == "qwen2") s.tied_head = false;
  if (family == "qwen3") s.head_dim = 24, s.window = 100;
  return model::make_seeded(s, 1);
}

Workload tiny_workload() {
  Workload work;
  work.decode_tokens = 4;
  int32_t value = 1;
  for (const int length : {127, 129, 1, 17}) {
    std::vector<int32_t> prompt;
    for (int i = 0; i < length; ++i) prompt.push_back(value = static_cast<int32_t>((value * 37 + 11) % kVocab));
    work.prompts.push_back(prompt);
  }
  return work;
}

}  // namespace zeroulp::verify
