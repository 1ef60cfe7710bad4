#include "verify/peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/interrupt.h"
#include "num/bits.h"

namespace zeroulp::verify {
namespace {

using ops::peers::Linear;
using ops::peers::Quantiser;

class Comparer {
 public:
  Comparer(const ops::Kernels& kernels, PeerStudy& out) : kernels_(kernels), out_(out) {}

  void input(const model::QuantizedLinear& l, int64_t rows, const uint16_t* x, bool first_of_input) {
    out_.inputs += rows;
    codes_.resize(static_cast<size_t>(rows * l.k));
    scales_.resize(static_cast<size_t>(rows));
    faults_.assign(static_cast<size_t>(rows), 0);
    const auto quantise = [&](ops::quant_rows::Fn* run, std::vector<int16_t>& codes, std::vector<float>& scales) {
      codes.resize(codes_.size());
      scales.resize(scales_.size());
      run({x, l.k, rows, l.k, 8, num::kLinearRange, nullptr, codes.data(), l.k, scales.data(), faults_.data()});
    };
    quantise(kernels_.quant_rows.run, codes_, scales_);
    for (PeerQuantiser& q : out_.quantisers) {
      if (!first_of_input) break;
      quantise(ops::peers::quantiser_of(q.quantiser), peer_codes_, peer_scales_);
      q.rows += rows;
      q.codes += rows * l.k;
      for (size_t r = 0; r < scales_.size(); ++r) q.scales_differ += num::bits_of(scales_[r]) != num::bits_of(peer_scales_[r]);
      for (size_t c = 0; c < codes_.size(); ++c) q.codes_differ += codes_[c] != peer_codes_[c];
    }
    const auto compute = [&](ops::linear_s8::Fn* run, std::vector<uint16_t>& y) {
      y.resize(static_cast<size_t>(rows * l.n));
      run({codes_.data(), l.k, scales_.data(), rows, l.k, 8, l.codes, l.k, l.n, l.scales, l.bias, ops::linear_s8::Output::kBf16, y.data(), l.n});
    };
    compute(kernels_.linear_s8.run, want_);
    for (PeerLinear& peer : out_.linears) {
      compute(ops::peers::linear_of(peer.linear), got_);
      SpacingHistogram& h = l.bias != nullptr ? peer.biased : peer.unbiased;
      for (size_t e = 0; e < want_.size(); ++e) h.add(num::ulp_distance_bf16(want_[e], got_[e]));
    }
  }

 private:
  const ops::Kernels& kernels_;
  PeerStudy& out_;
  std::vector<int16_t> codes_, peer_codes_;
  std::vector<float> scales_, peer_scales_;
  std::vector<uint8_t> faults_;
  std::vector<uint16_t> want_, got_;
};

Status compare_inputs(const model::QuantizedModel& model, const PeerPlan& plan, PeerStudy& study) {
  engine::EngineOptions options;
  options.threads = plan.threads;
  options.max_rows = options.max_context = options.max_total_positions = static_cast<int64_t>(plan.tokens.size());
  ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(model, options));
  Comparer comparer(engine->kernels(), study);
  int64_t done = 0;
  const int64_t total = model.config().layers * model::kLinearsPerLayer;
  engine->set_capture([&](int64_t layer, model::LinearRole role, int64_t rows, int64_t, const uint16_t* x) {
    const bool shared = role == model::LinearRole::kK || role == model::LinearRole::kV || role == model::LinearRole::kUp;
    comparer.input(model.layers()[static_cast<size_t>(layer)][role], rows, x, !shared);
    if (plan.progress) plan.progress("linears on captured inputs", ++done, total);
  });
  const engine::Engine::Chunk chunk{engine->open_sequence(), plan.tokens, engine::Engine::Want::kNone};
  return engine->forward(std::span(&chunk, 1), [](const engine::LogitsBlock&) -> Status { return {}; });
}

using Tokens = std::vector<std::vector<int32_t>>;

Result<Tokens> generate_with(const model::QuantizedModel& model, const PeerPlan& plan, const std::function<void(ops::Kernels&)>& adjust) {
  std::vector<engine::Request> requests;
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : plan.prompts) {
    requests.push_back({static_cast<uint64_t>(requests.size()), prompt, {}, plan.generated, {}});
    longest = std::max(longest, prompt.size());
  }
  engine::EngineOptions options;
  options.threads = plan.threads;
  options.adjust = adjust;
  options.max_context = static_cast<int64_t>(longest) + plan.generated;
  options.max_total_positions = (options.max_context + engine::kPagePositions) * static_cast<int64_t>(plan.prompts.size());
  ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(model, options));
  ZU_TRY_ASSIGN(auto outcomes, engine::generate(*engine, requests, static_cast<int64_t>(plan.prompts.size()), [](const engine::Step&) { return true; }));
  Tokens out;
  for (engine::Outcome& o : outcomes) out.push_back(std::move(o.tokens));
  return out;
}

Generations compare_tokens(const Tokens& want, const Tokens& got) {
  Generations g;
  for (size_t i = 0; i < want.size(); ++i) {
    ++g.prompts;
    const auto [a, b] = std::mismatch(want[i].begin(), want[i].end(), got[i].begin(), got[i].end());
    if (a == want[i].end() && b == got[i].end()) continue;
    ++g.part;
    const int64_t at = a - want[i].begin();
    if (g.first < 0 || at < g.first) g.first = at;
  }
  return g;
}

Status compare_generations_of(const model::QuantizedModel& model, const PeerPlan& plan, PeerStudy& study) {
  const auto total = static_cast<int64_t>(1 + study.linears.size() + study.stacks.size());
  int64_t done = 0;
  const auto run = [&](const std::function<void(ops::Kernels&)>& adjust) -> Result<Tokens> {
    if (interrupt_requested()) return interrupted();
    if (plan.progress) plan.progress("generations", done++, total);
    return generate_with(model, plan, adjust);
  };
  ZU_TRY_ASSIGN(const Tokens want, run({}));
  for (PeerLinear& l : study.linears) {
    ZU_TRY_ASSIGN(const Tokens got, run([&l](ops::Kernels& k) { k.linear_s8.run = ops::peers::linear_of(l.linear); }));
    l.generations = compare_tokens(want, got);
  }
  for (PeerStackResult& s : study.stacks) {
    ZU_TRY_ASSIGN(const Tokens got, run([&s](ops::Kernels& k) {
                    k.linear_s8.run = ops::peers::linear_of(s.stack->linear);
                    k.quant_rows.run = ops::peers::quantiser_of(s.stack->quantiser);
                  }));
    s.generations = compare_tokens(want, got);
  }
  return {};
}

}  // namespace

Result<PeerStudy> study_peers(const model::QuantizedModel& model, const PeerPlan& plan) {
  for (const auto& [name, width] : model.header().linear_widths)
    if (width != 8 && name != "head") return bad_input(fmt::format("{} takes inputs of {} bits; other stacks have 8: quantise with a w8a8 profile", name, width));
  if (model.header().pow2_row_scales) return bad_input("the model's activations have power-of-two scales, which no other stack has: quantise with w8a8-free or w8a8-po2");
  PeerStudy study;
  std::vector<std::string_view> names;
  const auto wanted = [&](std::string_view name) {
    names.push_back(name);
    return plan.only.empty() || std::find(plan.only.begin(), plan.only.end(), name) != plan.only.end();
  };
  for (size_t i = 0; i < std::size(ops::peers::kLinears); ++i)
    if (const auto name = ops::peers::kLinears[i].name; wanted(name)) study.linears.push_back({name, static_cast<Linear>(i), {}, {}, {}});
  for (size_t i = 0; i < std::size(ops::peers::kQuantisers); ++i)
    if (const auto name = ops::peers::kQuantisers[i].name; wanted(name)) study.quantisers.push_back({name, static_cast<Quantiser>(i)});
  for (const PeerStack& s : kPeerStacks)
    if (wanted(s.name)) study.stacks.push_back({s.name, &s, {}});
  for (const std::string& name : plan.only)
    if (std::find(names.begin(), names.end(), name) == names.end()) return usage_error(fmt::format("there is no '{}'; there are {}", name, fmt::join(names, "; ")));
  ZU_TRY(compare_inputs(model, plan, study));
  if (!plan.prompts.empty()) ZU_TRY(compare_generations_of(model, plan, study));
  return study;
}

}  // namespace zeroulp::verify
