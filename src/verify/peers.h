// Other stacks (ops/peers/peers.h) against the contract on a real model: how many outputs of its linears differ and by how much, how many codes of its
// quantisers, and when generations part.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/peers/peers.h"
#include "verify/foreign.h"

namespace zeroulp::verify {

// A quantiser and a linear that are used together.
struct PeerStack {
  std::string_view name;
  ops::peers::Quantiser quantiser;
  ops::peers::Linear linear;
};
inline constexpr PeerStack kPeerStacks[] = {
    {"vLLM, CUTLASS", ops::peers::Quantiser::kVllm, ops::peers::Linear::kVllmCutlass},
    {"vLLM, Triton", ops::peers::Quantiser::kVllm, ops::peers::Linear::kVllmTriton},
    {"SGLang, sm90", ops::peers::Quantiser::kSglangToken, ops::peers::Linear::kVllmCutlass},
    {"SGLang, sm75 to sm89", ops::peers::Quantiser::kSglangToken, ops::peers::Linear::kSglangPremultiplied},
    {"SGLang, block int8", ops::peers::Quantiser::kSglangGroup, ops::peers::Linear::kSglangBlock},
    {"torchao", ops::peers::Quantiser::kVllm, ops::peers::Linear::kTorchao},
    {"dequantise first", ops::peers::Quantiser::kVllm, ops::peers::Linear::kDequantiseFirst},
    {"llama.cpp, Q8_0", ops::peers::Quantiser::kLlamaQ80, ops::peers::Linear::kLlamaQ80},
};

struct Generations {
  int64_t prompts = 0, part = 0;
  int64_t first = -1;  // the earliest token at which one parts; -1: none does
};

struct PeerLinear {
  std::string_view name;
  ops::peers::Linear linear;
  SpacingHistogram unbiased, biased;  // bf16 spacings from the contract's output, from the contract's codes
  Generations generations;            // with the contract's quantiser
};
struct PeerQuantiser {
  std::string_view name;
  ops::peers::Quantiser quantiser;
  int64_t rows = 0, scales_differ = 0, codes = 0, codes_differ = 0;
};
struct PeerStackResult {
  std::string_view name;
  const PeerStack* stack = nullptr;
  Generations generations;
};
struct PeerStudy {
  int64_t inputs = 0;  // rows of linear inputs, captured from the model
  std::vector<PeerLinear> linears;
  std::vector<PeerQuantiser> quantisers;
  std::vector<PeerStackResult> stacks;
};

struct PeerPlan {
  std::vector<int32_t> tokens;                 // whose linear inputs are compared
  std::vector<std::vector<int32_t>> prompts;   // none: no generations
  int64_t generated = 32;                      // tokens after each
  std::vector<std::string> only;               // names of linears, quantisers and stacks; none: all of them
  int threads = 1;
  std::function<void(std::string_view step, int64_t done, int64_t total)> progress;
};

// The model must have 8-bit inputs in its layers.
Result<PeerStudy> study_peers(const model::QuantizedModel& model, const PeerPlan& plan);

}  // namespace zeroulp::verify
