#include "verify/faults/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/file.h"
#include "base/text.h"
#include "io/fields.h"
#include "report/json.h"

namespace zeroulp::verify {

namespace fs = std::filesystem;
using io::Fields;
using io::Json;

namespace {

constexpr const char* kBaselineSchema = "zeroulp.faults.baseline/1";
constexpr const char* kResultSchema = "zeroulp.fault/1";
constexpr int64_t kMany = int64_t{1} << 60;
constexpr double kFinite = std::numeric_limits<double>::max();

Status write_json(const fs::path& path, const Json& json) {
  ZU_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path, true));
  ZU_TRY(file.write(report::json_text(json)));
  return file.commit();
}

// `why` opens with the file's name, as errors of io::Fields do.
Error damaged(const fs::path& path, const Error& why) {
  return bad_input(fmt::format("{}: damaged ({}); remove it, and it is run again", path.string(), why.text.substr(path.string().size() + 2)));
}

Status expect(const Fields& f, const char* key, std::string_view want) {
  ZU_TRY_ASSIGN(const std::string got, f.string(key));
  if (got != want) return f.error(key, fmt::format("{} should be {}", in_quotes(got), in_quotes(want)));
  return {};
}

// The perplexity where text was asked, and 0 where it was not.
Result<double> perplexity_in(const Fields& f, bool asked) { return asked ? f.positive("perplexity", kFinite) : f.number("perplexity", 0, 0); }

// A file of this schema and of this study. Nothing where there is no file.
Result<std::optional<Json>> stored(const fs::path& path, const char* schema, const StudyPlan& plan) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return std::optional<Json>();
  ZU_TRY_ASSIGN(const std::string text, read_text_file(path, io::JsonLimits().max_bytes));
  Result<Json> json = io::parse_json(text, path.string());
  if (!json) return damaged(path, json.error());
  const Result<Fields> fields = Fields::of(*json, path.string());
  if (!fields) return damaged(path, fields.error());
  if (const Status is = expect(*fields, "schema", schema); !is) return damaged(path, is.error());
  if (const auto key = fields->object("key"); !key) return damaged(path, key.error());
  if (fields->at("key") != plan.key)
    return bad_input(fmt::format("{}: is of another model, text, effort, number of threads or version of the faults; choose another folder or remove it", path.string()));
  return std::optional<Json>(*std::move(json));
}

Result<StudyText> text_from(const Json& json, const std::string& name, const StudyPlan& plan) {
  StudyText text;
  ZU_TRY_ASSIGN(const Fields f, Fields::of(json, name));
  ZU_TRY_ASSIGN(text.perplexity, perplexity_in(f, plan.effort.asks_text()));
  ZU_TRY_ASSIGN(const Json* prompts, f.array("tokens"));
  if (static_cast<int64_t>(prompts->size()) != plan.effort.prompts) return f.error("tokens", fmt::format("{} lists for {} prompts", prompts->size(), plan.effort.prompts));
  for (const Json& p : *prompts) {
    ZU_TRY_ASSIGN(const std::vector<int64_t> tokens, io::integers_of(p, name + ": tokens", 0, plan.vocab - 1));
    if (static_cast<int64_t>(tokens.size()) != plan.effort.generated)
      return f.error("tokens", fmt::format("{} tokens for prompt {}, and {} are generated", tokens.size(), text.tokens.size(), plan.effort.generated));
    text.tokens.emplace_back(tokens.begin(), tokens.end());
  }
  return text;
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

Result<Apart> apart_from(const Fields& f, bool integers) {
  Apart a;
  a.integers = integers;
  ZU_TRY_ASSIGN(a.outputs, f.integer("places", 1, kMany));
  ZU_TRY_ASSIGN(a.elements, f.integer("elements", a.outputs, kMany));
  ZU_TRY_ASSIGN(a.differing, f.integer("differing", 0, a.elements));
  ZU_TRY_ASSIGN(const Fields spacings, f.object("spacings"));
  for (size_t i = 0; i < kApartNames.size(); ++i) {
    ZU_TRY_ASSIGN(a.spacings[i], spacings.integer(kApartNames[i].data(), 0, a.elements));
  }
  const int64_t placed = std::accumulate(a.spacings.begin(), a.spacings.end(), int64_t{0}), places = integers ? 0 : a.elements;
  if (placed != places) return f.error("spacings", fmt::format("sum to {}, not to {}", placed, places));
  // Differing bits may be no spacing apart (0 and -0); equal bits are none.
  if (placed - a.spacings[0] > a.differing) return f.error("spacings", fmt::format("{} elements are apart, and {} differ", placed - a.spacings[0], a.differing));
  ZU_TRY_ASSIGN(a.beyond_torch, f.integer("beyond_torch", 0, a.differing));
  ZU_TRY_ASSIGN(a.beyond_triton, f.integer("beyond_vllm_triton", 0, a.differing));
  ZU_TRY_ASSIGN(a.beyond_cutlass, f.integer("beyond_vllm_cutlass", 0, a.beyond_triton));
  ZU_TRY_ASSIGN(a.least_cosine, f.number("least_cosine", -1.001, 1.001));
  ZU_TRY_ASSIGN(a.largest_relative, f.number("largest_relative", 0, kFinite));
  ZU_TRY_ASSIGN(a.first, f.string("first"));
  if (a.first.empty() != (a.differing == 0)) return f.error("first", fmt::format("{}, and {} elements differ", in_quotes(a.first), a.differing));
  return a;
}

Status text_gates_from(const Fields& f, const StudyEffort& e, FaultResult& r) {
  ZU_TRY_ASSIGN(r.refused, f.string("refused"));
  if (!r.refused.empty() && !e.asks_text()) return f.error("refused", "no text was asked");
  ZU_TRY_ASSIGN(r.prompts, f.integer("prompts", 0, kMany));
  if (r.prompts != e.prompts) return f.error("prompts", fmt::format("{} should be {}", r.prompts, e.prompts));
  ZU_TRY_ASSIGN(r.parted, f.integer("parted", 0, r.prompts));
  ZU_TRY_ASSIGN(r.first_token, f.integer("first_token", -1, e.generated - 1));
  if (!r.refused.empty() && r.parted != r.prompts) return f.error("parted", fmt::format("{} of {} prompts, and the run was refused", r.parted, r.prompts));
  if ((r.first_token >= 0) != (r.parted > 0 && r.refused.empty())) return f.error("first_token", fmt::format("{}, and {} prompts parted", r.first_token, r.parted));
  ZU_TRY_ASSIGN(r.perplexity, perplexity_in(f, e.asks_text() && r.refused.empty()));
  return {};
}

Result<FaultResult> result_from(const Json& json, const std::string& name, const StudyPlan& plan, const Fault& fault, double right) {
  FaultResult r;
  ZU_TRY_ASSIGN(const Fields f, Fields::of(json, name));
  r.name = fault.name;
  ZU_TRY(expect(f, "class", class_name(fault.fault_class)));
  ZU_TRY(expect(f, "op", fault.op));
  ZU_TRY(expect(f, "mutant", fault.mutant));
  ZU_TRY(expect(f, "predicted", prediction(fault, plan.biases, plan.profile)));
  ZU_TRY_ASSIGN(r.suite_case, f.string("suite_case"));
  ZU_TRY_ASSIGN(const Fields outputs, f.object("outputs"));
  ZU_TRY_ASSIGN(r.apart, apart_from(outputs, fault.op == "argmax"));
  ZU_TRY_ASSIGN(const Fields text, f.object("text"));
  ZU_TRY(text_gates_from(text, plan.effort, r));
  ZU_TRY_ASSIGN(const std::vector<std::string> features, f.strings("features"));
  const int64_t most = std::min(r.apart.outputs, r.apart.differing);  // one of each place where something differs
  if (static_cast<int64_t>(features.size()) > most) return f.error("features", fmt::format("{}, more than {}", features.size(), most));
  for (const std::string& digits : features) {
    if (digits.size() != kFeatures || digits.find_first_not_of("-01234567") != digits.npos) return f.error("features", "is not one digit per feature");
    Features one;
    for (size_t i = 0; i < kFeatures; ++i) one[i] = digits[i] == '-' ? int8_t{-1} : static_cast<int8_t>(digits[i] - '0');
    r.features.push_back(one);
  }
  r.measured = letters(fault, r, plan.effort, right);
  ZU_TRY(expect(f, "measured", r.measured));
  return r;
}

}  // namespace

std::string letters(const Fault& fault, const FaultResult& r, const StudyEffort& effort, double right) {
  std::string out(kGates, static_cast<char>(Seen::kNotAsked));
  const auto set = [&out](Gate gate, Seen seen) { out[static_cast<size_t>(gate)] = static_cast<char>(seen); };
  const auto letter = [](bool noticed) { return noticed ? Seen::kNoticed : Seen::kPassed; };
  set(Gate::kSuite, letter(!r.suite_case.empty()));
  for (const Gate gate : {Gate::kEqual, Gate::kOneSpacing, Gate::kTorch, Gate::kVllmTriton, Gate::kVllmCutlass, Gate::kCosine, Gate::kMaxRelative}) set(gate, r.apart.seen(gate));
  if (!effort.asks_text()) return out;
  set(Gate::kTokens, letter(!r.refused.empty() || r.parted > 0));
  // The choice of a token has no part in perplexity.
  if (fault.op != "argmax") set(Gate::kPerplexity, letter(!r.refused.empty() || !(std::fabs(r.perplexity / right - 1) <= 0.005)));
  return out;
}

Result<std::optional<StudyText>> read_baseline(const fs::path& path, const StudyPlan& plan) {
  ZU_TRY_ASSIGN(const std::optional<Json> json, stored(path, kBaselineSchema, plan));
  if (!json) return std::optional<StudyText>();
  Result<StudyText> text = text_from(*json, path.string(), plan);
  if (!text) return damaged(path, text.error());
  return std::optional<StudyText>(*std::move(text));
}

Status write_baseline(const fs::path& path, const StudyPlan& plan, const StudyText& text) {
  return write_json(path, {{"schema", kBaselineSchema}, {"key", plan.key}, {"perplexity", text.perplexity}, {"tokens", text.tokens}});
}

Result<std::optional<FaultResult>> read_result(const fs::path& path, const StudyPlan& plan, const Fault& fault, double right) {
  ZU_TRY_ASSIGN(const std::optional<Json> json, stored(path, kResultSchema, plan));
  if (!json) return std::optional<FaultResult>();
  ZU_TRY_ASSIGN(const Fields f, Fields::of(*json, path.string()));
  const Result<std::string> name = f.string("fault");
  if (!name) return damaged(path, name.error());
  if (*name != fault.name)
    return bad_input(fmt::format("{}: is of another fault, {}; remove it, and {} is run again", path.string(), in_quotes(*name), fault.name));
  Result<FaultResult> result = result_from(*json, path.string(), plan, fault, right);
  if (!result) return damaged(path, result.error());
  return std::optional<FaultResult>(*std::move(result));
}

Status write_result(const fs::path& path, const StudyPlan& plan, const Fault& fault, const FaultResult& result) {
  Json json = to_json(result);
  json["schema"] = kResultSchema;
  json["key"] = plan.key;
  json["class"] = class_name(fault.fault_class);
  json["op"] = fault.op;
  json["mutant"] = fault.mutant;
  json["predicted"] = prediction(fault, plan.biases, plan.profile);
  return write_json(path, json);
}

}  // namespace zeroulp::verify
