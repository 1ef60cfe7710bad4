// Text generation over token ids: requests share passes, join and leave at any step; a request's tokens depend on nothing but itself.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "num/digest.h"
#include "ops/sample/contract.h"

namespace zeroulp::engine {

struct Request {
  uint64_t id = 0;  // part of the random numbers' counter; never a batch slot
  std::vector<int32_t> prompt;
  ops::sample::Settings sampling;
  int64_t max_tokens = 0;
  std::vector<int32_t> stop_tokens;
  // Given: called with the empty sequence, which may be made to stand behind the prompt's beginning, but not its last token.
  std::function<Status(int64_t sequence)> begin;
  // Given: called before the sequence is closed, with the prompt and all chosen tokens; the last one may not be computed yet.
  std::function<Status(int64_t sequence, std::span<const int32_t> tokens)> end;
};

enum class End { kStopToken, kMaxTokens, kContext, kStopped };  // kStopped: the callback said so

// One chosen token. `digest` is XXH3-128 over the logits that it was chosen from; zero when none were asked for.
struct Step {
  size_t request;    // index into the requests
  int64_t position;  // of the token whose logits these are; the chosen one stands at position + 1
  int32_t token;
  bool stops;  // a stop token: not part of the text
  num::Digest digest;
};

struct Outcome {
  End end = End::kMaxTokens;
  std::vector<int32_t> tokens;  // without the stop token
};

// Whether a request can be run with so many positions; exit code 3 if not.
Status check_request(const Request& request, int64_t max_context);

// Runs all requests, at most `batch` at a time, in order of arrival; calls on_step for every token, which may end its request by returning
// false. Without `digests` the logits of an engine on a GPU stay there. Ends with exit code 130 when Ctrl-C was pressed.
Result<std::vector<Outcome>> generate(Engine& engine, std::span<const Request> requests, int64_t batch,
                                      const std::function<bool(const Step&)>& on_step, bool digests = true);

}  // namespace zeroulp::engine
