#include "verify/faults/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "engine/generate.h"
#include "engine/quality.h"
#include "io/fields.h"
#include "report/json.h"
#include "verify/faults/suite.h"

namespace zeroulp::verify {

namespace fs = std::filesystem;
using io::Json;

StudyEffort StudyEffort::outputs_only() {
  StudyEffort e;
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

Status write_json(const fs::path& path, const Json& json) {
  ZU_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path, true));
  ZU_TRY(file.write(report::json_text(json)));
  return file.commit();
}

Json to_json(const FaultResult& r) {
  Json spacings = Json::object(), features = Json::array();
  for (const Features& f : r.features) {
    std::string digits;
    for (const int8_t b : f) digits += b < 0 ? '-' : static_cast<char>('0' + b);
    features.push_back(digits);
  }
  for (size_t i = 0; i < kApartNames.size(); ++i) spacings[std::string(kApartNames[i])] = r.apart.spacings[i];
  return {{"fault", r.name},
          {"measured", r.measured},
          {"outputs",
           {{"places", r.apart.outputs},
            {"elements", r.apart.elements},
            {"differing", r.apart.differing},
            {"spacings", spacings},
            {"beyond_torch", r.apart.beyond_torch},
            {"beyond_vllm_triton", r.apart.beyond_triton},
            {"beyond_vllm_cutlass", r.apart.beyond_cutlass},
            {"least_cosine", r.apart.least_cosine},
            {"largest_relative", r.apart.largest_relative},
            {"first", r.apart.first}}},
          {"suite_case", r.suite_case},
          {"text", {{"refused", r.refused}, {"prompts", r.prompts}, {"parted", r.parted}, {"first_token", r.first_token}, {"perplexity", r.perplexity}}},
          {"features", features},
          {"volatile", {{"seconds", r.seconds}}}};
}

constexpr int64_t kMany = int64_t{1} << 60;
constexpr double kHuge = 1e31;

Result<FaultResult> from_json(const Json& json, const std::string& name) {
  FaultResult r;
  ZU_TRY_ASSIGN(const io::Fields f, io::Fields::of(json, name));
  ZU_TRY_ASSIGN(r.name, f.string("fault"));
  ZU_TRY_ASSIGN(r.measured, f.string("measured"));
  if (r.measured.size() != kGates || r.measured.find_first_not_of("x.-") != r.measured.npos) return f.error("measured", "is not one letter per gate");
  ZU_TRY_ASSIGN(r.suite_case, f.string("suite_case"));
  ZU_TRY_ASSIGN(const io::Fields o, f.object("outputs"));
  ZU_TRY_ASSIGN(r.apart.outputs, o.integer("places", 0, kMany));
  ZU_TRY_ASSIGN(r.apart.elements, o.integer("elements", 0, kMany));
  ZU_TRY_ASSIGN(r.apart.differing, o.integer("differing", 0, kMany));
  ZU_TRY_ASSIGN(r.apart.beyond_torch, o.integer("beyond_torch", 0, kMany));
  ZU_TRY_ASSIGN(r.apart.beyond_triton, o.integer("beyond_vllm_triton", 0, kMany));
  ZU_TRY_ASSIGN(r.apart.beyond_cutlass, o.integer("beyond_vllm_cutlass", 0, kMany));
  ZU_TRY_ASSIGN(r.apart.least_cosine, o.number("least_cosine", -1.001, 1.001));
  ZU_TRY_ASSIGN(r.apart.largest_relative, o.number("largest_relative", 0, kHuge));
  ZU_TRY_ASSIGN(r.apart.first, o.string("first"));
  ZU_TRY_ASSIGN(const io::Fields spacings, o.object("spacings"));
  for (size_t i = 0; i < kApartNames.size(); ++i) {
    ZU_TRY_ASSIGN(r.apart.spacings[i], spacings.integer(kApartNames[i].data(), 0, kMany));
  }
  ZU_TRY_ASSIGN(const io::Fields t, f.object("text"));
  ZU_TRY_ASSIGN(r.refused, t.string("refused"));
  ZU_TRY_ASSIGN(r.prompts, t.integer("prompts", 0, kMany));
  ZU_TRY_ASSIGN(r.parted, t.integer("parted", 0, kMany));
  ZU_TRY_ASSIGN(r.first_token, t.integer("first_token", -1, kMany));
  ZU_TRY_ASSIGN(r.perplexity, t.number("perplexity", 0, kHuge));
  ZU_TRY_ASSIGN(const std::vector<std::string> features, f.strings("features"));
  for (const std::string& digits : features) {
    if (digits.size() != kFeatures || digits.find_first_not_of("-01234567") != digits.npos) return f.error("features", "is not one digit per feature");
    Features one;
    for (size_t i = 0; i < kFeatures; ++i) one[i] = digits[i] == '-' ? int8_t{-1} : static_cast<int8_t>(digits[i] - '0');
    r.features.push_back(one);
  }
  return r;
}

struct Text {
  std::vector<std::vector<int32_t>> tokens;  // generated, per prompt
  double perplexity = 0;
};

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
    key_ = {{"model", study_.model_identity},
            {"text", r_.text_sha256},
            {"threads", r_.threads},
            {"registry", kRegistryVersion},
            {"effort", {e.captured, e.layers, e.prompts, e.prompt_length, e.generated, e.quality_tokens, e.window}}};
    return baseline();
  }

  Result<std::optional<Json>> stored(const fs::path& path) const {
    std::error_code ec;
    if (!fs::exists(path, ec)) return std::optional<Json>();
    ZU_TRY_ASSIGN(Json json, io::read_json_file(path));
    if (!json.is_object() || json.value("key", Json()) != key_)
      return bad_input(fmt::format("{}: is of another model, text, effort, number of threads or version of the faults; choose another folder or remove it", path.string()));
    return std::optional<Json>(std::move(json));
  }

  // The model's own text, made anew in every call of this program: cheap beside the faults, and a check that the folder is of this model.
  Status baseline() {
    progress("without a fault", 0, 1);
    const fs::path path = r_.folder / "baseline.json";
    ZU_TRY_ASSIGN(const std::optional<Json> before, stored(path));
    if (before) {
      ZU_TRY_ASSIGN(const io::Fields f, io::Fields::of(*before, path.string()));
      ZU_TRY_ASSIGN(study_.perplexity, f.number("perplexity", 0, kHuge));
      ZU_TRY_ASSIGN(const Json* prompts, f.array("tokens"));
      for (const Json& p : *prompts) {
        ZU_TRY_ASSIGN(const std::vector<int64_t> tokens, io::integers_of(p, path.string(), 0, INT32_MAX));
        right_.tokens.emplace_back(tokens.begin(), tokens.end());
      }
      right_.perplexity = study_.perplexity;
      if (static_cast<int64_t>(right_.tokens.size()) != r_.effort.prompts) return f.error("tokens", "is not one list per prompt");
      return {};
    }
    if (r_.effort.asks_text()) {
      ZU_TRY_ASSIGN(right_, text_under({}));
    }
    study_.perplexity = right_.perplexity;
    return write_json(path, {{"schema", "zeroulp.faults.baseline/1"}, {"key", key_}, {"perplexity", right_.perplexity}, {"tokens", right_.tokens}});
  }

  Result<FaultResult> result_of(const Fault& fault) {
    const fs::path path = r_.folder / fmt::format("{}.json", fault.name);
    ZU_TRY_ASSIGN(const std::optional<Json> before, stored(path));
    if (before) return from_json(*before, path.string());
    const auto started = std::chrono::steady_clock::now();
    FaultResult r;
    r.name = fault.name;
    r.measured.assign(kGates, static_cast<char>(Seen::kNotAsked));
    const auto set = [&r](Gate gate, Seen seen) { r.measured[static_cast<size_t>(gate)] = static_cast<char>(seen); };
    ZU_TRY_ASSIGN(r.suite_case, suite_case(fault));
    set(Gate::kSuite, r.suite_case.empty() ? Seen::kPassed : Seen::kNoticed);
    ZU_TRY(on_captured(fault, r));
    for (const Gate gate : {Gate::kEqual, Gate::kOneSpacing, Gate::kTorch, Gate::kVllmTriton, Gate::kVllmCutlass, Gate::kCosine, Gate::kMaxRelative})
      set(gate, r.apart.seen(gate));
    if (r_.effort.asks_text()) ZU_TRY(text_gates(fault, r));
    r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    Json json = to_json(r);
    json["schema"] = "zeroulp.fault/1";
    json["key"] = key_;
    json["class"] = class_name(fault.fault_class);
    json["op"] = fault.op;
    json["mutant"] = fault.mutant;
    json["predicted"] = prediction(fault, study_.biases, study_.profile);
    ZU_TRY(write_json(path, json));
    return r;
  }

  Status text_gates(const Fault& fault, FaultResult& r) {
    const auto set = [&r](Gate gate, Seen seen) { r.measured[static_cast<size_t>(gate)] = static_cast<char>(seen); };
    ZU_TRY(on_text(fault, r));
    const bool other_perplexity = !(std::fabs(r.perplexity / right_.perplexity - 1) <= 0.005);
    set(Gate::kTokens, !r.refused.empty() || r.parted > 0 ? Seen::kNoticed : Seen::kPassed);
    // The choice of a token has no part in perplexity.
    set(Gate::kPerplexity, fault.op == "argmax" ? Seen::kNotAsked : !r.refused.empty() || other_perplexity ? Seen::kNoticed : Seen::kPassed);
    return {};
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
    Result<Text> got = text_under([&fault](ops::Kernels& k) { inject(fault, k); });
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

  Result<Text> text_under(const std::function<void(ops::Kernels&)>& adjust) {
    const StudyEffort& e = r_.effort;
    engine::EngineOptions options;
    options.threads = r_.threads;
    options.adjust = adjust;
    options.max_rows = 512;
    options.max_context = std::max(e.window, e.prompt_length + e.generated);
    options.max_total_positions = std::max(e.window, (e.prompt_length + e.generated + engine::kPagePositions) * e.prompts);
    ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(*r_.model, options));
    Text out;
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
    out.perplexity = quality.perplexity;
    return out;
  }

  const StudyRequest& r_;
  const StudyCallbacks& callbacks_;
  Study study_;
  Json key_, suite_ = Json::object();
  Text right_;
  std::optional<Capture> capture_;
  std::string expected_op_;
  std::vector<Output> expected_;
};

}  // namespace

Result<Study> run_study(const StudyRequest& request, const StudyCallbacks& callbacks) { return Driver(request, callbacks).run(); }

}  // namespace zeroulp::verify
