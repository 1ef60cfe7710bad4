// Planted order-dependences: one for each axis that `verify` varies, put into the computing code, so that the gate can be seen to fail.
// Each stands for a fault that real engines have.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ops/kv_cache/contract.h"
#include "ops/linear_s8/contract.h"
#include "ops/rmsnorm/contract.h"

namespace zeroulp::engine {

enum class Plant {
  kNone,
  kVariant,         // every variant but the reference rounds intermediates of its epilogue to bf16
  kThreads,         // with several threads, down_proj adds per-thread partial sums in bf16
  kBatch,           // with several sequences, activation scales are taken over the whole batch
  kChunk,           // chunks of several tokens use a norm whose factor is bf16
  kTensorParallel,  // ranks exchange partial sums in bf16
  kPrefixCache,     // a page found in the prefix cache comes back with its values rounded to 7 bits
  kHead             // with several threads, logits are rounded to bf16 and widened
};

inline constexpr std::string_view kPlantNames[] = {"none", "variant", "threads", "batch", "chunk", "tensor-parallel", "prefix-cache", "head"};
std::optional<Plant> plant_from_name(std::string_view name);

namespace planted {
void linear_bf16_intermediates(const ops::linear_s8::Args& args);
void linear_bf16_logits(const ops::linear_s8::Args& args);
void linear_bf16_partials(const ops::linear_s8::Args& args, int parts);
void rmsnorm_bf16_factor(const ops::rmsnorm::Args& args);
void round_sums_to_bf16(std::span<int64_t> sums);
void round_values(std::byte* block, const ops::kv_cache::Layout& layout);
}  // namespace planted

}  // namespace zeroulp::engine
