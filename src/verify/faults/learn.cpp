#include "verify/faults/learn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "engine/engine.h"
#include "model/seeded.h"
#include "num/digest.h"
#include "num/philox.h"
#include "verify/faults/capture.h"

namespace zeroulp::verify {
namespace {

using engine::TraceOp;

constexpr int64_t kTokens = 300, kVocab = 160;

ops::Kernels kernels(const Fault* fault) {
  auto k = ops::select_kernels("", cpu_features());
  ZU_CHECK(k.has_value());
  if (fault != nullptr) inject(*fault, *k);
  return *k;
}

bool differs(const Features& f) {
  return std::any_of(f.begin(), f.end(), [](int8_t b) { return b >= 0; });
}

void add_outputs(const Capture& capture, std::vector<Sample>& to) {
  std::map<std::string_view, std::vector<Output>> expected;
  for (const Fault& fault : faults()) {
    std::vector<std::string_view> ops = {fault.op};
    if (fault.op == "quant_rows") ops.push_back("codes");
    for (const std::string_view op : ops) {
      if (!expected.contains(op)) expected[op] = capture.outputs(op, kernels(nullptr));
      const std::vector<Output> got = capture.outputs(op, kernels(&fault));
      for (size_t i = 0; i < got.size(); ++i) {
        const Features f = features_of(observed(op, expected[op][i], got[i]));
        if (differs(f)) to.push_back({op == "codes" ? "quant_rows" : seen_at(op), &fault, f});
      }
    }
  }
}

// Digests of the residual stream: [2 * layers][position]. Shorter when the engine met a value outside the ranges.
using Stream = std::vector<std::vector<uint64_t>>;
Result<Stream> stream_of(const model::QuantizedModel& model, const std::vector<int32_t>& tokens, const Fault* fault, int threads) {
  engine::EngineOptions options;
  options.threads = threads;
  options.max_rows = options.max_context = options.max_total_positions = static_cast<int64_t>(tokens.size());
  if (fault != nullptr) options.adjust = [fault](ops::Kernels& k) { inject(*fault, k); };
  ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(model, options));
  Stream out(static_cast<size_t>(2 * model.config().layers));
  engine->set_trace([&out](const engine::TracePoint& p) {
    if (p.op != TraceOp::kAttentionResidual && p.op != TraceOp::kMlpResidual) return;
    out[static_cast<size_t>(2 * p.layer + (p.op == TraceOp::kMlpResidual))].push_back(num::digest_of(std::span(p.values, static_cast<size_t>(p.width))).low);
  });
  const engine::Engine::Chunk chunk{engine->open_sequence(), tokens, engine::Engine::Want::kNone};
  const Status done = engine->forward(std::span(&chunk, 1), [](const engine::LogitsBlock&) -> Status { return {}; });
  if (!done && done.error().code != ExitCode::kAnswerIsNo) return done.error();
  return out;
}

Status add_streams(const model::QuantizedModel& model, const std::vector<int32_t>& tokens, int threads, std::vector<Sample>& to) {
  ZU_TRY_ASSIGN(const Stream expected, stream_of(model, tokens, nullptr, threads));
  for (const Fault& fault : faults()) {
    ZU_TRY_ASSIGN(const Stream got, stream_of(model, tokens, &fault, threads));
    for (size_t word = 0; word < expected.size(); ++word) {
      if (got[word] == expected[word] || got[word].size() != expected[word].size()) continue;
      std::vector<bool> rows;
      for (size_t i = 0; i < got[word].size(); ++i) rows.push_back(got[word][i] != expected[word][i]);
      to.push_back({word % 2 ? kLogMlp : kLogAttention, &fault, features_of_rows(rows, static_cast<int64_t>(word / 2))});
      break;
    }
  }
  return {};
}

struct Source {
  const char* family;
  uint64_t seed;
  int width;
};

Result<std::vector<Sample>> samples_of(std::initializer_list<Source> sources, const std::vector<int64_t>& layers, int threads) {
  std::vector<Sample> samples;
  for (const Source& s : sources) {
    model::SeededShape shape;
    shape.architecture = s.family;
    shape.hidden = 144, shape.intermediate = 320, shape.layers = 4, shape.heads = 4, shape.kv_heads = 2, shape.head_dim = 32, shape.vocab = kVocab;
    shape.width = s.width;
    shape.key_width = 15;
    const model::QuantizedModel model = model::make_seeded(shape, s.seed);
    num::PhiloxStream random(1000 + s.seed);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < kTokens; ++i) tokens.push_back(static_cast<int32_t>(random.below(kVocab)));
    ZU_TRY_ASSIGN(const Capture capture, Capture::of(model, tokens, layers, threads));
    add_outputs(capture, samples);
    ZU_TRY(add_streams(model, tokens, threads, samples));
  }
  return samples;
}

}  // namespace

Result<std::vector<Sample>> training_samples(int threads) {
  return samples_of({{"llama", 1, 15}, {"qwen2", 2, 15}, {"qwen3", 3, 15}, {"llama", 4, 8}, {"qwen2", 5, 8}}, {0, 2}, threads);
}
Result<std::vector<Sample>> held_out_samples(int threads) { return samples_of({{"qwen2", 11, 15}, {"llama", 12, 15}, {"qwen2", 13, 8}}, {1, 3}, threads); }

std::string signature_table(const std::vector<Sample>& samples) {
  struct Counts {
    std::array<std::array<int, kBuckets>, kFeatures> of{};
  };
  std::map<std::pair<std::string, std::string>, Counts> rows;
  for (const Sample& s : samples)
    for (size_t f = 0; f < kFeatures; ++f)
      if (s.features[f] >= 0) ++rows[{std::string(s.seen_at), std::string(s.fault->name)}].of[f][static_cast<size_t>(s.features[f])];
  std::string out;
  for (const auto& [key, counts] : rows) {
    out += fmt::format("{{\"{}\", \"{}\",\n \"", key.first, key.second);
    for (size_t f = 0; f < kFeatures; ++f) {
      int total = 0;
      for (const int n : counts.of[f]) total += n;
      for (const int n : counts.of[f]) out += fmt::format("{:x}", total == 0 ? 0 : (15 * n + total / 2) / total);
      if (f + 1 < kFeatures) out += ' ';
    }
    out += "\"},\n";
  }
  return out;
}

std::vector<Accuracy> accuracy_of(const std::vector<Sample>& samples) {
  std::vector<Accuracy> out;
  for (const Sample& s : samples) {
    if (std::none_of(out.begin(), out.end(), [&](const Accuracy& a) { return a.seen_at == s.seen_at; })) out.push_back({s.seen_at});
    Accuracy& a = *std::find_if(out.begin(), out.end(), [&](const Accuracy& x) { return x.seen_at == s.seen_at; });
    ++a.judged;
    a.right += likely_fault(s.seen_at, s.features).fault_class == s.fault->fault_class;
  }
  return out;
}

}  // namespace zeroulp::verify
