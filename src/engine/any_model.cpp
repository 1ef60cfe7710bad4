#include "engine/any_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "model/quantized_model.h"

namespace zeroulp::engine {
namespace {

constexpr int64_t kEngineRows = 256;  // of one forward pass: bounds the logits held at once

}  // namespace

struct AnyModel::Impl {
  explicit Impl(const Options& o) : options(o) {}

  Options options;
  std::unique_ptr<ThreadPool> pool;
  std::optional<model::Checkpoint> checkpoint;
  std::optional<FloatDecoder> decoder;
  std::optional<model::QuantizedModel> quantized;
  std::unique_ptr<Engine> engine;
  std::vector<std::string> notes;
  io::Json no_recipe;

  Status open_float(const std::filesystem::path& folder) {
    pool = std::make_unique<ThreadPool>(options.threads);
    ZU_TRY_ASSIGN(checkpoint, model::Checkpoint::open(folder));
    notes = checkpoint->notes();
    ZU_TRY_ASSIGN(decoder, FloatDecoder::create(*checkpoint, {.mode = options.mode}, *pool));
    return {};
  }

  Status open_quantized(const std::filesystem::path& folder) {
    ZU_TRY_ASSIGN(quantized, model::QuantizedModel::open(folder));
    ZU_TRY(quantized->verify_identity());
    EngineOptions e;
    e.kernel = options.kernel;
    e.device = options.device;
    e.threads = options.threads;
    e.max_rows = std::min(kEngineRows, options.positions);
    e.max_context = options.positions;
    e.max_total_positions = options.positions;
    ZU_TRY_ASSIGN(engine, Engine::create(*quantized, e));
    return {};
  }

  const model::ModelConfig& config() const { return quantized ? quantized->config() : decoder->config(); }

  // One sequence through the integer engine, in passes of its row limit.
  Status run_engine(std::span<const int32_t> tokens, const LogitsSink& sink) {
    const int64_t id = engine->open_sequence();
    const auto rows = static_cast<size_t>(engine->options().max_rows);
    Status status;
    for (size_t at = 0; at < tokens.size() && status; at += rows) {
      const Engine::Chunk chunk{id, tokens.subspan(at, std::min(rows, tokens.size() - at)), Engine::Want::kAll};
      status = engine->forward(std::span(&chunk, 1), sink);
      if (!status) return status;  // the engine has closed the sequence
    }
    engine->close_sequence(id);
    return status;
  }
};

AnyModel::AnyModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AnyModel::AnyModel(AnyModel&&) noexcept = default;
AnyModel& AnyModel::operator=(AnyModel&&) noexcept = default;
AnyModel::~AnyModel() = default;

Result<AnyModel> AnyModel::open(const std::filesystem::path& folder, const Options& options) {
  auto impl = std::make_unique<Impl>(options);
  ZU_TRY(model::is_quantized_folder(folder) ? impl->open_quantized(folder) : impl->open_float(folder));
  if (options.positions > impl->config().max_positions)
    return bad_input(fmt::format("{}: the model has {} positions, a window of {} does not fit", folder.string(), impl->config().max_positions,
                                 options.positions));
  return AnyModel(std::move(impl));
}

const model::ModelConfig& AnyModel::config() const { return impl_->config(); }
bool AnyModel::quantized() const { return impl_->quantized.has_value(); }
std::string AnyModel::kind() const {
  if (quantized()) return impl_->quantized->header().profile;
  return impl_->options.mode == FloatDecoder::Mode::kBf16 ? "bf16" : "f32";
}
std::string AnyModel::identity() const { return quantized() ? impl_->quantized->identity() : ""; }
const io::Json& AnyModel::recipe() const { return quantized() ? *impl_->quantized->header().recipe : impl_->no_recipe; }
std::vector<std::string> AnyModel::kernels() const { return quantized() ? impl_->engine->kernel_names() : std::vector<std::string>(); }
const std::vector<std::string>& AnyModel::notes() const { return impl_->notes; }

Decode AnyModel::decode() {
  return [impl = impl_.get()](std::span<const int32_t> tokens, const LogitsSink& sink) {
    return impl->engine ? impl->run_engine(tokens, sink) : impl->decoder->forward(tokens, sink);
  };
}

LogitsSource AnyModel::source() {
  return impl_->engine ? stored_logits(decode(), config().vocab) : logits_of(*impl_->decoder);
}

Status refuse_calibration_overlap(const io::Json& recipe, const std::string& text_sha256, int64_t first, int64_t count) {
  if (!recipe.is_object() || !recipe.contains("calibration") || !recipe["calibration"].is_object()) return {};
  const io::Json& c = recipe["calibration"];
  if (!c.contains("text_sha256") || c["text_sha256"] != text_sha256) return {};
  const auto number = [&](const char* key) { return c.contains(key) && c[key].is_number_integer() ? c[key].get<int64_t>() : int64_t{-1}; };
  const int64_t begin = number("first_token"), tokens = number("tokens");
  if (begin < 0 || tokens < 0) return bad_input("zeroulp.json: recipe.calibration does not say which tokens of the text it looked at");
  const int64_t end = begin + tokens;
  if (first >= end || begin >= first + count) return {};
  return bad_input(fmt::format("tokens {} to {} would be measured, but the model's calibration looked at tokens {} to {} of the same text; "
                               "choose others with --from, or another text",
                               first, first + count - 1, begin, end - 1));
}

}  // namespace zeroulp::engine
