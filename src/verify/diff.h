// What changed between two checkpoints, two tensor files or two digest logs, and where first.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace zeroulp::verify {

// Distances of elements whose bits differ. Floats: representable numbers in between, plus one; integers: the difference.
inline constexpr std::array<std::string_view, 12> kDistanceNames = {
    "sign of zero", "1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-256", "257-65536", "more", "NaN in one"};
using DistanceCounts = std::array<int64_t, kDistanceNames.size()>;

enum class TensorState { kEqual, kDiffers, kTypeDiffers, kShapeDiffers, kOnlyInA, kOnlyInB };
std::string_view state_name(TensorState state);  // "equal", "differs", "type differs", ...

struct TensorDiff {
  std::string name;
  TensorState state = TensorState::kEqual;
  Dtype dtype_a = Dtype::kU8, dtype_b = Dtype::kU8;
  std::vector<int64_t> shape_a, shape_b;
  int64_t elements = 0;  // compared: 0 unless type and shape agree

  // Below: of tensors that differ.
  int64_t differing = 0;
  std::vector<int64_t> first;    // index of the first differing element, in row-major order
  std::string first_a, first_b;  // there: the value and its bits, "0.0123 (0x3c4a)"
  uint64_t largest_distance = 0;
  DistanceCounts distances{};
};

struct CheckpointDiff {
  std::vector<TensorDiff> tensors;  // in model order: embedding, layers by number, the rest
  std::vector<std::string>
      differing_json;  // JSON files that both folders have: "config.json at /rms_norm_eps"; or only one has
  std::vector<std::string> notes;  // a quantised folder that is not what its own header says; the tensors are compared all the same
  int64_t elements = 0, differing = 0;
  DistanceCounts distances{};

  bool equal() const;
  const TensorDiff* first_difference() const;  // null if all tensors are equal
};

// One sequence of two digest logs.
struct SequenceDiff {
  int64_t sequence = 0;
  int64_t compared = 0, differing = 0;
  int64_t only_in_a = 0, only_in_b = 0;  // positions
  int64_t first_position = -1;           // where bits first diverged; -1: nowhere
  std::string first_a, first_b;          // the digests there
};

struct DigestLogDiff {
  std::vector<SequenceDiff> sequences;  // ascending
  std::string first_layer;              // of two run logs that differ: layer, place in it, position and sequence; "": not known
  std::string first_token;              // of generated tokens that both have: the first that differs, as text; "": none
  std::vector<std::string> notes;       // what else differs in what the logs are of: model, prompts, sampling
  bool common = false;                  // positions that only one log has are counted, but make no difference
  bool equal() const;
  bool equal(const SequenceDiff& sequence) const;
  bool any_differs() const;  // a position that both have, or a token
  int64_t compared() const;
};

enum class DiffKind { kCheckpoints, kDigestLogs };

struct Diff {
  DiffKind kind = DiffKind::kCheckpoints;
  CheckpointDiff checkpoints;
  DigestLogDiff digests;

  bool equal() const { return kind == DiffKind::kCheckpoints ? checkpoints.equal() : digests.equal(); }
  // Elements or positions that both sides have.
  int64_t compared() const { return kind == DiffKind::kCheckpoints ? checkpoints.elements : digests.compared(); }
};

// Told the bytes compared so far and in all.
using DiffProgress = std::function<void(uint64_t done, uint64_t total)>;

// Folders with safetensors, safetensors files (one of each may be compared), or digest logs: run logs (.zlog), or JSON with an
// array, alone or under "digests", of {sequence, position, xxh3}. `common`: of digest logs only the positions that both have decide. `key`: that both run logs were sealed with.
Result<Diff> diff_paths(const std::filesystem::path& a, const std::filesystem::path& b, const DiffProgress& progress = {}, bool common = false,
                        const std::optional<std::string>& key = {});

}  // namespace zeroulp::verify
