// The KV cache of a sequence in a file, and back bit for bit (docs/spec/kv-cache.md): a safetensors file, packed by the codec.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "codec/packed.h"
#include "engine/engine.h"
#include "io/safetensors.h"

namespace zeroulp::engine {

inline constexpr const char* kKvFormat = "zeroulp-kv/1";

// Writes what the engine has of a sequence. `tokens` are the sequence's own and those, if any, that are chosen and not computed yet.
Result<codec::PackReport> save_kv(Engine& engine, const model::QuantizedModel& model, int64_t sequence, std::span<const int32_t> tokens,
                                  const std::filesystem::path& path, const codec::PackOptions& options);

// A file that has been checked: it is of this model and contract, and no value in it is one that the engine could not have written.
class SavedKv {
 public:
  static Result<SavedKv> open(const std::filesystem::path& path, const model::QuantizedModel& model);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t positions() const { return positions_; }  // that are computed; at most tokens().size()

  // Lets an empty sequence stand behind the first `positions` tokens.
  Status restore(Engine& engine, int64_t sequence, int64_t positions) const;

 private:
  struct Layer {
    std::span<const std::byte> key_hi, key_lo, key_scales, values, value_exponents;  // key_lo: only at key width 15
  };
  Status read(const model::QuantizedModel& model);
  Status check_codes(const model::QuantizedModel& model) const;

  io::SafetensorsFile file_;
  std::vector<int32_t> tokens_;
  int64_t positions_ = 0, kv_heads_ = 0, d_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace zeroulp::engine
