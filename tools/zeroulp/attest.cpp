#include "attest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "args.h"
#include "base/file.h"
#include "device/device.h"
#include "model_text.h"
#include "report/json.h"
#include "report/progress.h"
#include "verify/replay.h"
#include "verify/verify.h"

namespace zeroulp::cli {

Result<std::optional<std::string>> read_key(const std::string& file) {
  if (file.empty()) return std::optional<std::string>();
  ZU_TRY_ASSIGN(std::string key, read_text_file(file, 4096));
  if (key.size() < 16) return bad_input(fmt::format("{}: a key of {} bytes; 16 at least, 32 random ones for choice", file, key.size()));
  return std::optional<std::string>(std::move(key));
}

namespace {

constexpr uint64_t kMaxLog = 4ull << 30;

Result<verify::RunConfig> config_of(const AttestOptions& o) {
  verify::RunConfig config{.kernel = o.kernel, .threads = static_cast<int>(o.threads)};
  ZU_TRY_ASSIGN(config.device, device::parse_device(o.device));
  return config;
}

// "the machine of the log" in a few words.
std::string machine_of(const io::Json& provenance) {
  const auto text = [&](const char* block, const char* key) -> std::string {
    const auto outer = provenance.find(block);
    if (outer == provenance.end() || !outer->is_object()) return "unknown";
    const auto inner = outer->find(key);
    return inner != outer->end() && inner->is_string() ? inner->get<std::string>() : "unknown";
  };
  return provenance.is_object() ? fmt::format("{}, zeroulp {}, {}", text("machine", "cpu"), text("zeroulp", "version"), text("zeroulp", "compiler"))
                                : "unknown";
}

io::Json difference_json(const verify::Replay& r) {
  io::Json out = {{"compared", r.difference.compared}, {"differing", r.difference.differing}, {"tokens_equal", r.difference.tokens_equal}};
  if (r.difference.differing > 0) out["first"] = {{"sequence", r.difference.first.first}, {"position", r.difference.first.second}};
  if (r.first_layer)
    out["first_layer"] = {{"layer", r.first_layer->layer},
                          {"after", r.first_layer->after_mlp ? "MLP" : "attention"},
                          {"sequence", r.first_layer->sequence},
                          {"position", r.first_layer->position},
                          {"likely", {{"class", verify::class_name(r.first_layer->likely.fault_class)}, {"share", r.first_layer->likely.share}, {"as_in", r.first_layer->likely.fault}}}};
  if (r.first_token >= 0) out["first_token"] = {{"sequence", r.first_token_sequence}, {"token", r.first_token}};
  return out;
}

}  // namespace

Result<int> record_run(const AttestOptions& o) {
  report::Report report("verify");
  ZU_TRY_ASSIGN(const std::optional<std::string> key, read_key(o.key_file));
  ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o.model));
  ZU_TRY_ASSIGN(const ModelText text, read_model_text("verify", o.model, o.text));
  verify::RunLog log;
  log.contract = model::kContract;
  log.model_identity = model.identity();
  log.model_profile = model.header().profile;
  log.workload = verify::make_workload(text.tokens, verify::Effort().prompt_lengths, o.decode);
  log.workload.sampling = {.temperature = static_cast<float>(o.temperature), .seed = o.seed};
  ZU_TRY_ASSIGN(const verify::RunConfig config, config_of(o));
  ZU_TRY(verify::compute(model, config, o.plant, log));
  io::Json provenance = report.finished();
  provenance["text"] = {{"name", text.name}, {"sha256", text.sha256}};
  provenance["config"] = config.to_json();
  provenance["kernels"] = log.log.kernels;
  log.provenance = std::make_shared<const io::Json>(std::move(provenance));
  const std::string bytes = verify::encode_run_log(log, key);
  ZU_TRY(report::write_output(o.record, bytes, o.force));
  const std::string summary = fmt::format("{}: {} sequences, {} positions, {} bytes, {}; digest {}", o.record, log.workload.prompts.size(),
                                          log.log.digests.size(), bytes.size(), key ? "sealed with the key" : "sealed by its hash",
                                          log.log.combined().hex());
  o.record == "-" ? say(summary) : tell(summary);
  return 0;
}

Result<int> replay_run(const AttestOptions& o) {
  report::Report report("verify");
  ZU_TRY_ASSIGN(const std::optional<std::string> key, read_key(o.key_file));
  ZU_TRY_ASSIGN(const std::string bytes, read_text_file(o.replay, kMaxLog));
  ZU_TRY_ASSIGN(const verify::RunLog log, verify::decode_run_log(bytes, key, o.replay));
  ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o.model));
  ZU_TRY_ASSIGN(const verify::RunConfig config, config_of(o));
  const auto replayed = verify::replay(model, log, config, o.plant);
  if (!replayed) return Error{replayed.error().code, fmt::format("{}: {}", o.replay, replayed.error().text)};
  if (o.json != "-") {
    tell(fmt::format("recorded  {}", machine_of(log.provenance ? *log.provenance : io::Json())));
    tell(fmt::format("here      {}", machine_of(report.body)));
    tell(fmt::format("kernels   {}", fmt::join(replayed->kernels, " ")));
    tell(fmt::format("seal      {}", key ? "HMAC-SHA-256, made with this key" : "SHA-256: whole, but anybody could have made it"));
    tell(fmt::format("{}: {}", replayed->holds() ? "HOLDS" : "DOES NOT HOLD", replayed->verdict()));
  }
  if (!o.json.empty()) {
    report.body["holds"] = replayed->holds();
    report.body["verdict"] = replayed->verdict();
    report.body["model"] = {{"identity", model.identity()}, {"profile", model.header().profile}, {"contract", model::kContract}};
    report.body["replay"] = difference_json(*replayed);
    report.body["config"] = replayed->config.to_json();
    report.body["kernels"] = replayed->kernels;
    report.body["sealed_with_key"] = key.has_value();
    report.body["recorded"] = log.provenance ? *log.provenance : io::Json();
    ZU_TRY(report.write(o.json, o.force));
  }
  return replayed->holds() ? 0 : 1;
}

}  // namespace zeroulp::cli
