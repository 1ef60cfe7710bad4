// Run logs (docs/spec/run-log.md): what one machine computed, small enough to send to another that computes it again.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "verify/digests.h"

namespace zeroulp::verify {

struct RunLog {
  std::string contract, model_identity, model_profile;
  Workload workload;
  DigestLog log;         // every position of every sequence, and the tokens that were chosen
  int64_t layers = 0;    // of the model, if the residual stream was logged; 0: it was not
  // Per position 2 * layers words: the residual stream after each layer's attention and after its MLP, in this order. The low word of
  // XXH3-128 over the row's bf16 bits.
  std::map<DigestLog::Key, std::vector<uint64_t>> residuals;
  // Build, machine, configuration, kernels, time: for people, and under the seal as all of it. Null: nothing is said.
  std::shared_ptr<const io::Json> provenance;
};

// The seal: SHA-256 against accidents, or HMAC-SHA-256 with a key that both sides know.
std::string encode_run_log(const RunLog& log, const std::optional<std::string>& key);
// Refuses what is not whole, not sealed by this key, or sealed with a key when none is given (and the reverse). `name` opens error lines.
Result<RunLog> decode_run_log(std::string_view bytes, const std::optional<std::string>& key, const std::string& name);

// Whether the bytes begin as a run log does.
bool looks_like_run_log(std::string_view bytes);

}  // namespace zeroulp::verify
