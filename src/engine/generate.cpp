#include "engine/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/interrupt.h"

namespace zeroulp::engine {
namespace {

class Generation {
 public:
  Generation(Engine& engine, std::span<const Request> requests, int64_t batch, const std::function<bool(const Step&)>& on_step, bool digests)
      : engine_(engine), requests_(requests), batch_(batch), on_step_(on_step), digests_(digests), sampler_(engine.config().vocab, engine.kernels().argmax.run), outcomes_(requests.size()) {}

  Result<std::vector<Outcome>> run() {
    for (const Request& r : requests_) ZU_TRY(check_request(r, engine_.options().max_context));
    for (;;) {
      if (interrupt_requested()) return interrupted();
      ZU_TRY(admit());
      if (live_.empty()) return std::move(outcomes_);
      ZU_TRY(pass());
    }
  }

 private:
  struct Live {
    size_t request;
    int64_t sequence;
    int64_t fed = 0;    // prompt tokens forwarded
    int32_t next = -1;  // the chosen token, not forwarded yet
    int64_t share = 0;  // prompt tokens in this pass
    bool ended = false;
  };

  // Positions that a request may come to need, in whole pages.
  int64_t reserve(const Request& r) const {
    const int64_t most = std::min(static_cast<int64_t>(r.prompt.size()) + r.max_tokens, engine_.options().max_context);
    return (most + kPagePositions - 1) / kPagePositions * kPagePositions;
  }

  Status admit() {
    while (next_request_ < requests_.size() && static_cast<int64_t>(live_.size()) < batch_) {
      const Request& r = requests_[next_request_];
      if (!live_.empty() && reserved_ + reserve(r) > engine_.options().max_total_positions) return {};
      reserved_ += reserve(r);
      Live l{next_request_++, engine_.open_sequence()};
      if (r.begin) {
        ZU_TRY(r.begin(l.sequence));
        l.fed = engine_.length(l.sequence);
        ZU_CHECK(l.fed < static_cast<int64_t>(r.prompt.size()));
      } else {
        l.fed = engine_.reuse_prefix(l.sequence, r.prompt);
      }
      live_.push_back(l);
    }
    return {};
  }

  Status pass() {
    std::vector<Engine::Chunk> chunks;
    int64_t room = engine_.options().max_rows;
    for (Live& l : live_) room -= l.next >= 0;
    for (Live& l : live_) {
      const std::vector<int32_t>& prompt = requests_[l.request].prompt;
      const int64_t left = static_cast<int64_t>(prompt.size()) - l.fed;
      l.share = std::min(left, room);
      room -= l.share;
      if (l.share > 0)
        chunks.push_back({l.sequence, std::span(prompt).subspan(static_cast<size_t>(l.fed), static_cast<size_t>(l.share)),
                          l.share == left ? Engine::Want::kLast : Engine::Want::kNone});
      else if (left == 0)
        chunks.push_back({l.sequence, std::span(&l.next, 1), Engine::Want::kLast});
    }
    ZU_TRY(digests_ ? engine_.forward(chunks, [&](const LogitsBlock& block) { return choose(block); }) : draw(chunks));
    for (Live& l : live_) l.fed += l.share;
    for (const Live& l : live_)
      if (l.ended && requests_[l.request].end) ZU_TRY(hand_over(l));
    std::erase_if(live_, [&](const Live& l) {
      if (!l.ended) return false;
      engine_.close_sequence(l.sequence);
      reserved_ -= reserve(requests_[l.request]);
      return true;
    });
    return {};
  }

  Status hand_over(const Live& l) {
    const Request& r = requests_[l.request];
    std::vector<int32_t> tokens = r.prompt;
    const Outcome& outcome = outcomes_[l.request];
    tokens.insert(tokens.end(), outcome.tokens.begin(), outcome.tokens.end());
    if (outcome.end == End::kStopToken) tokens.push_back(l.next);
    return r.end(l.sequence, tokens);
  }

  Live& live(int64_t sequence) {
    return *std::find_if(live_.begin(), live_.end(), [&](const Live& x) { return x.sequence == sequence; });
  }

  Status choose(const LogitsBlock& block) {
    const Live& l = live(block.sequence);
    const Request& r = requests_[l.request];
    const int64_t vocab = engine_.config().vocab, position = block.first_position;
    if (r.max_tokens == 0) return end(live(block.sequence), End::kMaxTokens);
    const int64_t token = sampler_.draw(block.logits, vocab, r.sampling, static_cast<uint32_t>(position), r.id);
    return take(block.sequence, position, token, num::digest_of(std::span(block.logits, static_cast<size_t>(vocab))));
  }

  // The same without the logits.
  Status draw(const std::vector<Engine::Chunk>& chunks) {
    std::vector<Engine::Draw> draws;
    for (const Engine::Chunk& c : chunks) draws.push_back({requests_[live(c.sequence).request].sampling, requests_[live(c.sequence).request].id});
    ZU_TRY_ASSIGN(const std::vector<int64_t> tokens, engine_.forward_and_draw(chunks, draws));
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i].want != Engine::Want::kLast) continue;
      const int64_t sequence = chunks[i].sequence;
      if (requests_[live(sequence).request].max_tokens == 0) {
        ZU_TRY(end(live(sequence), End::kMaxTokens));
      } else {
        ZU_TRY(take(sequence, engine_.length(sequence) - 1, tokens[i], {}));
      }
    }
    return {};
  }

  // The token chosen after `position`.
  Status take(int64_t sequence, int64_t position, int64_t token, const num::Digest& digest) {
    Live& l = live(sequence);
    const Request& r = requests_[l.request];
    Outcome& outcome = outcomes_[l.request];
    if (token < 0) return answer_is_no(fmt::format("NaN or infinity among the logits at position {} of request {}", position, r.id));
    l.next = static_cast<int32_t>(token);
    const bool stops = std::find(r.stop_tokens.begin(), r.stop_tokens.end(), l.next) != r.stop_tokens.end();
    const bool go_on = on_step_({l.request, position, l.next, stops, digest});
    if (stops) return end(l, End::kStopToken);
    outcome.tokens.push_back(l.next);
    if (!go_on) return end(l, End::kStopped);
    if (static_cast<int64_t>(outcome.tokens.size()) >= r.max_tokens) return end(l, End::kMaxTokens);
    if (position + 1 >= engine_.options().max_context) return end(l, End::kContext);
    return {};
  }

  Status end(Live& l, End how) {
    outcomes_[l.request].end = how;
    l.ended = true;
    return {};
  }

  Engine& engine_;
  std::span<const Request> requests_;
  int64_t batch_;
  const std::function<bool(const Step&)>& on_step_;
  bool digests_;
  ops::sample::Sampler sampler_;
  std::vector<Outcome> outcomes_;
  std::vector<Live> live_;
  size_t next_request_ = 0;
  int64_t reserved_ = 0;
};

}  // namespace

Status check_request(const Request& r, int64_t max_context) {
  const auto length = static_cast<int64_t>(r.prompt.size());
  if (length == 0) return bad_input("a prompt without tokens; give some text, or a model with a begin-of-text token");
  if (length > max_context) return bad_input(fmt::format("a prompt of {} tokens is longer than the context of {}", length, max_context));
  return {};
}

Result<std::vector<Outcome>> generate(Engine& engine, std::span<const Request> requests, int64_t batch,
                                      const std::function<bool(const Step&)>& on_step, bool digests) {
  if (batch < 1 || batch > engine.options().max_rows)
    return usage_error(fmt::format("a batch of {}; 1 to {} requests can share a pass", batch, engine.options().max_rows));
  return Generation(engine, requests, batch, on_step, digests).run();
}

}  // namespace zeroulp::engine
