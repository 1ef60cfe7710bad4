#include "model/compressed_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "model/compressed_tensors.h"
#include "model/tensor_names.h"
#include "num/bf16.h"
#include "ops/embedding/contract.h"

namespace zeroulp::model {
namespace fs = std::filesystem;
namespace {

constexpr const char* kKeptFiles[] = {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"};

// A tensor of the file: where its bytes come from, or the bytes.
struct Piece {
  io::TensorSpec spec;
  std::span<const std::byte> bytes;
  std::vector<std::byte> owned;
  std::span<const std::byte> data() const { return owned.empty() ? bytes : std::span<const std::byte>(owned); }
};

template <class T>
std::span<const std::byte> view(const T* values, int64_t count) {
  return std::as_bytes(std::span(values, static_cast<size_t>(count)));
}

class Exporter {
 public:
  explicit Exporter(const QuantizedModel& model) : model_(model), c_(model.config()) {}

  Status collect() {
    for (const auto& [name, width] : model_.header().linear_widths)
      if (width != 8 && name != "head")
        return bad_input(fmt::format("{}: takes inputs of {} bits, which compressed-tensors does not have; quantise with a profile of 8-bit activations", name, width));
    if (model_.header().linear_widths.at("head") != 8) notes.push_back("the head's inputs have 15 bits here and will have 8 there");
    add_embedding();
    for (int64_t layer = 0; layer < c_.layers; ++layer) ZU_TRY(add_layer(layer));
    add(kFinalNormName, Dtype::kBF16, {c_.hidden}, view(model_.final_norm(), c_.hidden));
    add_linear("lm_head", model_.head());
    notes.push_back("the embedding is written as the bf16 numbers that a look-up gives; the head keeps its codes, so it is no longer tied");
    notes.push_back("the contract's attention, norms and 15-bit queries are zeroulp's own: another engine computes these in floating point");
    return {};
  }

  std::vector<Piece> pieces;
  std::vector<std::string> notes;

 private:
  void add(const std::string& name, Dtype dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes) { pieces.push_back({{name, dtype, std::move(shape)}, bytes, {}}); }

  void add_linear(const std::string& module, const QuantizedLinear& l) {
    add(module + std::string(kWeightSuffix), Dtype::kI8, {l.n, l.k}, view(l.codes, l.n * l.k));
    add(module + std::string(kWeightScaleSuffix), Dtype::kF32, {l.n, 1}, view(l.scales, l.n));
    if (l.bias != nullptr) add(module + ".bias", Dtype::kF32, {l.n}, view(l.bias, l.n));
  }

  void add_embedding() {
    const QuantizedLinear& e = model_.embedding();
    std::vector<uint16_t> values;
    values.reserve(static_cast<size_t>(e.n * e.k));
    for (int64_t row = 0; row < e.n; ++row)
      for (int64_t i = 0; i < e.k; ++i) values.push_back(ops::embedding::value(e.codes[row * e.k + i], e.scales[row]));
    const auto bytes = std::as_bytes(std::span(values));
    pieces.push_back({{kEmbeddingName, Dtype::kBF16, {e.n, e.k}}, {}, {bytes.begin(), bytes.end()}});
  }

  Status add_layer(int64_t layer) {
    const QuantizedLayer& l = model_.layers()[static_cast<size_t>(layer)];
    for (int r = 0; r < kLinearsPerLayer; ++r) {
      const std::string part = (r <= static_cast<int>(LinearRole::kO) ? "self_attn." : "mlp.") + std::string(kLinearNames[r]);
      add_linear(layer_tensor_name(layer, part), l.linears[r]);
    }
    add(layer_tensor_name(layer, "input_layernorm.weight"), Dtype::kBF16, {c_.hidden}, view(l.input_norm, c_.hidden));
    add(layer_tensor_name(layer, "post_attention_layernorm.weight"), Dtype::kBF16, {c_.hidden}, view(l.post_norm, c_.hidden));
    if (!c_.qk_norm) return {};
    ZU_TRY(add_head_norm(layer, "self_attn.q_norm.weight", l.q_norm, c_.heads));
    return add_head_norm(layer, "self_attn.k_norm.weight", l.k_norm, c_.kv_heads);
  }

  Status add_head_norm(int64_t layer, const std::string& part, const uint16_t* norm, int64_t heads) {
    const std::string name = layer_tensor_name(layer, part);
    for (int64_t h = 1; h < heads; ++h)
      if (std::memcmp(norm, norm + h * c_.head_dim, static_cast<size_t>(c_.head_dim) * 2) != 0)
        return bad_input(fmt::format("{}: differs between heads, which a Hugging Face checkpoint cannot say; quantise with --smooth off", name));
    add(name, Dtype::kBF16, {c_.head_dim}, view(norm, c_.head_dim));
    return {};
  }

  const QuantizedModel& model_;
  const ModelConfig& c_;
};

Status write_text(const fs::path& path, const std::string& text) {
  ZU_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path, false));
  ZU_TRY(file.write(text));
  return file.commit();
}

}  // namespace

Result<CompressedExport> export_compressed(const QuantizedModel& model, const fs::path& source, const fs::path& out, bool force) {
  ZU_TRY_ASSIGN(io::Json config, io::read_json_file(source / "config.json", {.max_depth = 32, .max_bytes = 16u << 20}));
  if (!config.is_object()) return bad_input(fmt::format("{}: is not an object", (source / "config.json").string()));
  ZU_TRY(model.verify_identity());
  Exporter exporter(model);
  ZU_TRY(exporter.collect());
  config["tie_word_embeddings"] = false;
  config["quantization_config"] = compressed_tensors_config({});
  config.erase("dtype");
  config["torch_dtype"] = "bfloat16";

  ZU_TRY_ASSIGN(AtomicFolder folder, AtomicFolder::create(out, force));
  ZU_TRY(write_text(folder.temporary() / "config.json", config.dump(2) + "\n"));
  std::vector<io::TensorSpec> specs;
  for (const Piece& p : exporter.pieces) specs.push_back(p.spec);
  ZU_TRY_ASSIGN(auto writer, io::SafetensorsWriter::create(folder.temporary() / "model.safetensors", specs, {{"format", "pt"}}, false));
  for (const Piece& p : exporter.pieces) ZU_TRY(writer.write(p.spec.name, p.data()));
  ZU_TRY(writer.commit());
  for (const char* name : kKeptFiles) {
    std::error_code ec;
    if (!fs::exists(source / name, ec)) continue;
    fs::copy_file(source / name, folder.temporary() / name, ec);
    if (ec) return bad_input(fmt::format("{}: cannot be copied: {}", (source / name).string(), ec.message()));
  }
  ZU_TRY(folder.commit());
  return CompressedExport{static_cast<int64_t>(specs.size()), writer.data_bytes(), std::move(exporter.notes)};
}

}  // namespace zeroulp::model
