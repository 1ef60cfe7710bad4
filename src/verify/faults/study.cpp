#include "verify/faults/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/interrupt.h"
#include "engine/generate.h"
#include "engine/quality.h"
#include "verify/faults/study_files.h"
#include "verify/faults/suite.h"

namespace zeroulp::verify {

namespace fs = std::filesystem;

StudyEffort StudyEffort::outputs_only() const {
  StudyEffort e = *this;
  e.prompts = e.prompt_length = e.generated = e.quality_tokens = e.window = 0;
  return e;
}
StudyEffort StudyEffort::tiny() { return {140, 2, 3, 12, 12, 260, 130}; }

bool Study::missed(const FaultResult& r, size_t gate) const {
  const Fault* fault = find_fault(r.name);
  ZU_CHECK(fault != nullptr);
  return r.measured[gate] != static_cast<char>(Seen::kNotAsked) && prediction(*fault, biases, profile)[gate] != r.measured[gate];
}

int64_t FaultResult::recognised() const {
  const Fault* fault = find_fault(name);
  ZU_CHECK(fault != nullptr);
  return std::count_if(features.begin(), features.end(), [&](const Features& f) { return likely_fault(seen_at(fault->op), f).fault_class == fault->fault_class; });
}

bool Study::holds() const {
  return !results.empty() && std::all_of(results.begin(), results.end(), [](const FaultResult& r) { return r.measured[0] == static_cast<char>(Seen::kNoticed); });
}

namespace {

class Driver {
 public:
  Driver(const StudyRequest& request, const StudyCallbacks& callbacks) : r_(request), callbacks_(callbacks) {}

  Result<Study> run() {
    ZU_TRY(prepare());
    std::vector<const Fault*> wanted;
    for (const Fault& f : faults())
      if (r_.only.empty() || std::find(r_.only.begin(), r_.only.end(), f.name) != r_.only.end()) wanted.push_back(&f);
    study_.missing = static_cast<int64_t>(faults().size() - wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (interrupt_requested()) return interrupted();
      progress(std::string(wanted[i]->name), static_cast<int64_t>(i), static_cast<int64_t>(wanted.size()));
      ZU_TRY_ASSIGN(FaultResult result, result_of(*wanted[i]));
      study_.results.push_back(std::move(result));
    }
    return std::move(study_);
  }

 private:
  void progress(const std::string& step, int64_t done, int64_t total) const {
    if (callbacks_.progress) callbacks_.progress(step, done, total);
  }

  Status prepare() {
    const int64_t needed = std::max({r_.effort.captured, r_.effort.quality_tokens, r_.effort.prompts * r_.effort.prompt_length});
    if (static_cast<int64_t>(r_.tokens.size()) < needed) return bad_input(fmt::format("the text has {} tokens; the fault study needs {}", r_.tokens.size(), needed));
    for (const std::string& name : r_.only)
      if (find_fault(name) == nullptr) return usage_error(fmt::format("--only {}: there is no such fault; --list names them", name));
    ZU_TRY(r_.model->verify_identity());
    std::error_code ec;
    fs::create_directories(r_.folder, ec);
    if (ec) return bad_input(fmt::format("{}: cannot be made: {}", r_.folder.string(), ec.message()));
    study_.model_identity = r_.model->identity();
    study_.profile = r_.model->header().profile;
    study_.text_name = r_.text_name;
    study_.text_sha256 = r_.text_sha256;
    study_.effort = r_.effort;
    study_.threads = r_.threads;
    study_.biases = r_.model->config().qkv_bias;
    const StudyEffort& e = r_.effort;
    plan_ = {e, r_.model->config().vocab, study_.biases, study_.profile, {{"model", study_.model_identity},
                                                                          {"text", r_.text_sha256},
                                                                          {"threads", r_.threads},
                                                                          {"registry", kRegistryVersion},
                                                                          {"effort", {e.captured, e.layers, e.prompts, e.prompt_length, e.generated, e.quality_tokens, e.window}}}};
    return baseline();
  }

  Status baseline() {
    progress("without a fault", 0, 1);
    const fs::path path = r_.folder / "baseline.json";
    ZU_TRY_ASSIGN(std::optional<StudyText> before, read_baseline(path, plan_));
    if (before) {
      right_ = *std::move(before);
    } else {
      if (r_.effort.asks_text()) {
        ZU_TRY_ASSIGN(right_, text_under({}));
      }
      ZU_TRY(write_baseline(path, plan_, right_));
    }
    study_.perplexity = right_.perplexity;
    return {};
  }

  Result<FaultResult> result_of(const Fault& fault) {
    const fs::path path = r_.folder / fmt::format("{}.json", fault.name);
    ZU_TRY_ASSIGN(std::optional<FaultResult> before, read_result(path, plan_, fault, right_.perplexity));
    if (before) return *std::move(before);
    const auto started = std::chrono::steady_clock::now();
    FaultResult r;
    r.name = fault.name;
    ZU_TRY_ASSIGN(r.suite_case, suite_case(fault));
    ZU_TRY(on_captured(fault, r));
    if (r_.effort.asks_text()) ZU_TRY(on_text(fault, r));
    r.measured = letters(fault, r, r_.effort, right_.perplexity);
    r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    ZU_TRY(write_result(path, plan_, fault, r));
    return r;
  }

  Result<std::string> suite_case(const Fault& fault) {
    const std::string key = fmt::format("{}: {}", fault.op, fault.mutant);
    if (!suite_.contains(key)) first_suite_cases(fault.op, suite_);
    ZU_CHECK(suite_.contains(key));
    return suite_[key].get<std::string>();
  }

  ops::Kernels kernels(const Fault* fault) const {
    auto k = ops::select_kernels("", cpu_features());
    ZU_CHECK(k.has_value());
    if (fault != nullptr) inject(*fault, *k);
    return *k;
  }

  Status on_captured(const Fault& fault, FaultResult& r) {
    if (!capture_) {
      const std::vector<int32_t> tokens(r_.tokens.begin(), r_.tokens.begin() + r_.effort.captured);
      ZU_TRY_ASSIGN(Capture capture, Capture::of(*r_.model, tokens, spread_layers(r_.model->config().layers, r_.effort.layers), r_.threads));
      capture_ = std::move(capture);
    }
    if (expected_op_ != fault.op) {
      expected_ = capture_->outputs(fault.op, kernels(nullptr));
      expected_op_ = fault.op;
    }
    const std::vector<Output> got = capture_->outputs(fault.op, kernels(&fault));
    for (size_t i = 0; i < got.size(); ++i) {
      r.apart.add(expected_[i], got[i]);
      const Features features = features_of(observed(fault.op, expected_[i], got[i]));
      if (std::any_of(features.begin(), features.end(), [](int8_t f) { return f >= 0; })) r.features.push_back(features);
    }
    return {};
  }

  Status on_text(const Fault& fault, FaultResult& r) {
    r.prompts = r_.effort.prompts;
    Result<StudyText> got = text_under([&fault](ops::Kernels& k) { inject(fault, k); });
    if (!got) {
      if (got.error().code != ExitCode::kAnswerIsNo) return std::move(got).error();
      r.refused = got.error().text;
      r.parted = r.prompts;
      return {};
    }
    r.perplexity = got->perplexity;
    for (size_t i = 0; i < right_.tokens.size(); ++i) {
      const auto &a = right_.tokens[i], &b = got->tokens[i];
      const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
      if (a == b) continue;
      ++r.parted;
      r.first_token = r.first_token < 0 ? at : std::min<int64_t>(r.first_token, at);
    }
    return {};
  }

  Result<StudyText> text_under(const std::function<void(ops::Kernels&)>& adjust) {
    const StudyEffort& e = r_.effort;
    engine::EngineOptions options;
    options.threads = r_.threads;
    options.adjust = adjust;
    options.max_rows = 512;
    options.max_context = std::max(e.window, e.prompt_length + e.generated);
    options.max_total_positions = std::max(e.window, (e.prompt_length + e.generated + engine::kPagePositions) * e.prompts);
    ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(*r_.model, options));
    StudyText out;
    std::vector<engine::Request> requests;
    const size_t step = (r_.tokens.size() - static_cast<size_t>(e.prompt_length)) / static_cast<size_t>(e.prompts);
    for (int64_t i = 0; i < e.prompts; ++i) {
      const auto begin = r_.tokens.begin() + i * static_cast<int64_t>(step);
      requests.push_back({static_cast<uint64_t>(i), {begin, begin + e.prompt_length}, {}, e.generated, {}});
    }
    ZU_TRY_ASSIGN(const auto outcomes, engine::generate(*engine, requests, e.prompts, [](const engine::Step&) { return true; }, false));
    for (const engine::Outcome& o : outcomes) out.tokens.push_back(o.tokens);
    engine::QualityJob job;
    job.text = {std::span<const int32_t>(r_.tokens).first(static_cast<size_t>(e.quality_tokens)), e.window, std::nullopt};
    job.vocab = r_.model->config().vocab;
    job.candidate = engine::decode_with(*engine);
    ThreadPool pool(r_.threads);
    ZU_TRY_ASSIGN(const engine::Quality quality, engine::measure_quality(job, engine->kernels(), pool));
    out.perplexity = std::min(quality.perplexity, std::numeric_limits<double>::max());  // of very wrong text it may be beyond binary64
    return out;
  }

  const StudyRequest& r_;
  const StudyCallbacks& callbacks_;
  Study study_;
  StudyPlan plan_;
  StudyText right_;  // without a fault
  io::Json suite_ = io::Json::object();
  std::optional<Capture> capture_;
  std::string expected_op_;
  std::vector<Output> expected_;
};

}  // namespace

Result<Study> run_study(const StudyRequest& request, const StudyCallbacks& callbacks) { return Driver(request, callbacks).run(); }

}  // namespace zeroulp::verify
