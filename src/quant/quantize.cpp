#include "quant/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/interrupt.h"
#include "model/tensor_names.h"
#include "num/digest.h"
#include "quant/absorb.h"
#include "quant/budget.h"
#include "quant/calibrated.h"
#include "quant/layer_weights.h"
#include "quant/partial.h"
#include "quant/rounding.h"

namespace zeroulp::quant {
namespace fs = std::filesystem;
namespace {

// Files of the source folder that the container keeps as they are.
constexpr const char* kKeptFiles[] = {"config.json",        "generation_config.json",  "tokenizer.json",
                                      "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"};

class Converter {
 public:
  Converter(const model::Checkpoint& checkpoint, const Job& job)
      : checkpoint_(checkpoint), config_(checkpoint.config()), job_(job), pool_(job.threads) {}

  Result<Outcome> run() {
    source_ = source_identity(checkpoint_);
    ZU_TRY_ASSIGN(PartialFolder partial, PartialFolder::open(job_.out, key(), job_.resume, job_.force));
    ZU_TRY(convert_tables(partial));
    while (outcome_.layers_resumed < config_.layers && partial.has(part_name(outcome_.layers_resumed))) ++outcome_.layers_resumed;
    ZU_TRY(job_.calibration.tokens.empty() ? convert_by_rounding(partial) : convert_by_calibration(partial));
    report("writing", config_.layers);
    ZU_TRY(write_model(partial));
    partial.remove_all();
    return outcome_;
  }

 private:
  static std::string part_name(int64_t layer) { return fmt::format("layer-{:05}", layer); }
  static std::string state_name(int64_t layer) { return fmt::format("state-{:05}", layer); }

  // Everything that the output depends on.
  std::string key() const {
    num::Sha256 sha;
    sha.update(io::Json{{"recipe", recipe()}, {"config", model::config_to_json(config_)}}.dump());
    for (const int32_t token : job_.calibration.tokens) sha.update_u64(static_cast<uint64_t>(token));
    return sha.hex();
  }

  io::Json recipe() const {
    return {{"zeroulp", ZEROULP_VERSION},
            {"source_sha256", source_},
            {"options", to_json(job_.options)},
            {"calibration", to_json(job_.calibration)}};
  }

  void report(std::string_view stage, int64_t done) const {
    if (job_.progress) job_.progress(stage, done, config_.layers);
  }

  // Embedding, head and final norm. A tied embedding is the head too, so it follows the head's rule; alone it keeps free scales.
  Status convert_tables(PartialFolder& partial) {
    if (partial.has("tables")) return {};
    report("quantising the vocabulary", 0);
    model::TensorMap tensors;
    ZU_TRY(add_table(tensors, "embed", model::kEmbeddingName, config_.tied_head ? job_.options.rule : num::ScaleRule::kFree));
    if (!config_.tied_head) ZU_TRY(add_table(tensors, "head", model::kHeadName, job_.options.rule));
    ZU_TRY_ASSIGN(const auto norm, checkpoint_.bf16(model::kFinalNormName));
    tensors["final_norm"] = model::make_tensor(Dtype::kBF16, {config_.hidden}, norm);
    return partial.save("tables", tensors);
  }

  Status add_table(model::TensorMap& tensors, const std::string& name, const char* source, num::ScaleRule rule) {
    FloatLinear table;
    table.n = config_.vocab, table.k = config_.hidden;
    if (keeps_integers()) {
      ZU_TRY_ASSIGN(std::optional<CodedLinear> kept, kept_codes(source));
      if (kept) {
        add_linear(tensors, name, *kept);
        return {};
      }
    }
    ZU_TRY_ASSIGN(table.weights, checkpoint_.floats(source));
    ZU_TRY_ASSIGN(const CodedLinear coded, round_linear(table, rule, source, pool_));
    add_linear(tensors, name, coded);
    return {};
  }

  // Codes and scales of an int8 checkpoint pass unchanged where nothing asks for others.
  bool keeps_integers() const {
    return checkpoint_.is_compressed() && job_.options.rule == num::ScaleRule::kFree && job_.calibration.tokens.empty() && !job_.options.absorb;
  }

  // Without bias. The contract has no code -128: it becomes -127, and is counted.
  Result<std::optional<CodedLinear>> kept_codes(const std::string& name) {
    ZU_TRY_ASSIGN(auto integers, checkpoint_.integers(name));
    if (!integers) return std::optional<CodedLinear>();
    const std::vector<int64_t>& shape = checkpoint_.find(name)->shape;
    CodedLinear out{shape[0], shape[1], {integers->codes, integers->codes + shape[0] * shape[1]}, std::move(integers->scales), {}};
    for (int64_t row = 0; row < out.n; ++row) {
      int8_t* codes = out.codes.data() + row * out.k;
      outcome_.codes_saturated += std::count(codes, codes + out.k, int8_t{-128});
      std::replace(codes, codes + out.k, int8_t{-128}, int8_t{-127});
      float& scale = out.scales[static_cast<size_t>(row)];
      if (std::all_of(codes, codes + out.k, [](int8_t c) { return c == 0; })) scale = 1.0f;
      if (!(scale >= 0x1p-40f && scale <= 0x1p8f))
        return bad_input(fmt::format("{}: output channel {} has the scale {}; the contract's lie in 2^-40 to 2^8", name, row, scale));
    }
    return std::optional<CodedLinear>(std::move(out));
  }

  Status convert_by_rounding(PartialFolder& partial) {
    for (int64_t layer = outcome_.layers_resumed; layer < config_.layers; ++layer) {
      ZU_TRY(before_layer("quantising", layer));
      ZU_TRY_ASSIGN(FloatLayer floats, load_layer(checkpoint_, layer));
      if (job_.options.absorb) absorb_mantissas(floats, config_);
      ZU_TRY_ASSIGN(LayerCodes codes, round_layer(std::move(floats), job_.options, layer, pool_));
      for (int r = 0; keeps_integers() && r < model::kLinearsPerLayer; ++r) {
        ZU_TRY_ASSIGN(std::optional<CodedLinear> kept, kept_codes(weight_name(layer, static_cast<model::LinearRole>(r))));
        if (!kept) continue;
        kept->bias = std::move(codes.linears[r].bias);
        codes.linears[r] = std::move(*kept);
      }
      ZU_TRY(save_layer(partial, layer, codes));
    }
    return {};
  }

  // A layer's part is written after the state that follows it: whoever finds the part finds the state.
  Status convert_by_calibration(PartialFolder& partial) {
    if (outcome_.layers_resumed == config_.layers) return {};
    ZU_TRY_ASSIGN(const ops::Kernels kernels, ops::select_kernels("", cpu_features()));
    CalibratedRun run(checkpoint_, job_.options, job_.calibration, kernels, pool_);
    const int64_t first = outcome_.layers_resumed;
    if (first == 0) {
      ZU_TRY_ASSIGN(const model::TensorMap tables, partial.load("tables"));
      ZU_TRY(run.start(embedding_of(tables)));
    } else {
      ZU_TRY_ASSIGN(const model::TensorMap state, partial.load(state_name(first - 1)));
      ZU_TRY(run.restore(state));
    }
    for (int64_t layer = first; layer < config_.layers; ++layer) {
      ZU_TRY(before_layer("calibrating", layer));
      ZU_TRY_ASSIGN(const LayerCodes codes, run.convert(layer));
      ZU_TRY(partial.save(state_name(layer), run.state()));
      ZU_TRY(save_layer(partial, layer, codes));
      if (layer > 0) ZU_TRY(partial.erase(state_name(layer - 1)));
    }
    return {};
  }

  model::QuantizedLinear embedding_of(const model::TensorMap& tables) const {
    const auto data = [&](const char* name) { return tables.find(name)->second.bytes.data(); };
    return {config_.vocab, config_.hidden, 15, reinterpret_cast<const int8_t*>(data("embed.codes")),
            reinterpret_cast<const float*>(data("embed.scales")), nullptr};
  }

  Status before_layer(std::string_view stage, int64_t layer) const {
    if (interrupt_requested()) return interrupted();
    report(stage, layer);
    return {};
  }

  Status save_layer(const PartialFolder& partial, int64_t layer, const LayerCodes& codes) const {
    model::TensorMap tensors;
    for (int r = 0; r < model::kLinearsPerLayer; ++r)
      add_linear(tensors, linear_name(layer, static_cast<model::LinearRole>(r)), codes.linears[r]);
    add_norms(tensors, fmt::format("layers.{}.", layer), codes.floats);
    return partial.save(part_name(layer), tensors);
  }

  void add_norms(model::TensorMap& tensors, const std::string& prefix, const FloatLayer& weights) const {
    tensors[prefix + "input_norm"] = model::make_tensor(Dtype::kBF16, {config_.hidden}, weights.input_norm);
    tensors[prefix + "post_norm"] = model::make_tensor(Dtype::kBF16, {config_.hidden}, weights.post_norm);
    if (!config_.qk_norm) return;
    tensors[prefix + "q_norm"] = model::make_tensor(Dtype::kBF16, {config_.heads, config_.head_dim}, weights.q_norm);
    tensors[prefix + "k_norm"] = model::make_tensor(Dtype::kBF16, {config_.kv_heads, config_.head_dim}, weights.k_norm);
  }

  Status write_model(PartialFolder& partial) {
    ZU_TRY_ASSIGN(model::TensorMap tensors, partial.load("tables"));
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      ZU_TRY_ASSIGN(model::TensorMap more, partial.load(part_name(layer)));
      tensors.merge(more);
    }
    model::QuantizedHeader header;
    header.config = config_;
    header.profile = job_.options.profile;
    header.linear_widths = linear_widths(job_.options, config_);
    header.pow2_row_scales = job_.options.pow2_rows;
    header.key_widths.assign(static_cast<size_t>(config_.layers), job_.options.key_width);
    io::Json made = recipe();
    if (job_.options.budget) {
      ZU_TRY(choose_by_budget(header, tensors));
      made["width_choice"] = outcome_.width_choice;
    }
    header.recipe = std::make_shared<io::Json>(std::move(made));
    if (is_mixed(header.linear_widths)) header.profile = "mixed";
    ZU_TRY_ASSIGN(const auto quantized, model::QuantizedModel::assemble(std::move(header), std::move(tensors), job_.out.string()));
    ZU_TRY_ASSIGN(AtomicFolder folder, AtomicFolder::create(job_.out, job_.force));
    ZU_TRY(quantized.save(folder.temporary()));
    ZU_TRY(keep_files(folder.temporary()));
    ZU_TRY(folder.commit());
    outcome_.identity = quantized.identity();
    outcome_.profile = quantized.header().profile;
    outcome_.weight_bytes = quantized.weight_bytes();
    return {};
  }

  Status choose_by_budget(model::QuantizedHeader& header, const model::TensorMap& tensors) {
    BudgetJob job{*job_.options.budget, job_.calibration.measured(), job_.calibration.window, job_.threads, {}};
    job.progress = [this](int64_t done, int64_t total) {
      if (job_.progress) job_.progress("measuring widths", done, total);
    };
    ZU_TRY_ASSIGN(WidthChoice choice, choose_widths(checkpoint_, header, tensors, job));
    header.linear_widths = std::move(choice.widths);
    outcome_.width_choice = std::move(choice.measured);
    return {};
  }

  // Different widths; the head's own does not count.
  static bool is_mixed(const std::map<std::string, int>& widths) {
    std::set<int> seen;
    for (const auto& [name, width] : widths)
      if (name != "head") seen.insert(width);
    return seen.size() > 1;
  }

  Status keep_files(const fs::path& folder) const {
    for (const char* name : kKeptFiles) {
      const fs::path from = checkpoint_.folder() / name;
      std::error_code ec;
      if (!fs::exists(from, ec)) continue;
      fs::copy_file(from, folder / name, ec);
      if (ec) return bad_input(fmt::format("{}: cannot be copied: {}", from.string(), ec.message()));
    }
    return {};
  }

  const model::Checkpoint& checkpoint_;
  const model::ModelConfig& config_;
  const Job& job_;
  ThreadPool pool_;
  std::string source_;
  Outcome outcome_;
};

}  // namespace

std::string source_identity(const model::Checkpoint& checkpoint) {
  num::Sha256 sha;
  for (const auto& [name, place] : checkpoint.files().tensors()) {
    sha.update_u64(name.size());
    sha.update(name);
    sha.update(dtype_name(place.tensor->dtype));
    sha.update_u64(place.tensor->shape.size());
    for (const int64_t extent : place.tensor->shape) sha.update_u64(static_cast<uint64_t>(extent));
    sha.update(place.file->data(*place.tensor));
  }
  return sha.hex();
}

bool interrupted_conversion(const fs::path& out) { return PartialFolder::left_by(out); }

Result<Outcome> quantize(const model::Checkpoint& checkpoint, const Job& job) {
  ZU_TRY(check_folder_creatable(job.out, job.force));
  // What could not be opened afterwards is not begun.
  ZU_TRY(model::config_from_json(model::config_to_json(checkpoint.config()), "this model's config.json"));
  if (job.calibration.tokens.empty() && (job.options.gptq || job.options.smooth))
    return usage_error("calibration text is missing");
  if (job.options.budget && job.calibration.held_out == 0) return usage_error("--budget measures on calibration text: give --calibration FILE");
  return Converter(checkpoint, job).run();
}

}  // namespace zeroulp::quant
