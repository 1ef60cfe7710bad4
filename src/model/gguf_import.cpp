#include "model/gguf_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/gguf_config.h"
#include "model/gguf_tokenizer.h"
#include "model/tensor_names.h"
#include "num/bf16.h"

namespace zeroulp::model {
namespace fs = std::filesystem;
namespace {

struct PartNames {
  std::string_view hf, gguf;
};
constexpr PartNames kLayerParts[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
constexpr PartNames kTopParts[] = {
    {kEmbeddingName, "token_embd.weight"}, {kFinalNormName, "output_norm.weight"}, {kHeadName, "output.weight"}};

constexpr std::string_view kLayerPrefix = "model.layers.";

struct Source {
  ExpectedTensor target;
  const io::GgufTensor* tensor;
};

// Every tensor of the model with its place in the file; nothing missing, nothing left over.
Result<std::vector<Source>> match_tensors(const io::GgufModel& gguf, const ModelConfig& config) {
  std::vector<Source> out;
  std::set<std::string> used = {"rope_freqs.weight"};  // is in the configuration
  const std::string path = gguf.path().string();
  for (const ExpectedTensor& e : expected_tensors(config)) {
    const std::string name = gguf_tensor_name(e.name);
    const io::GgufTensor* t = gguf.find(name);
    if (t == nullptr) return bad_input(fmt::format("{}: the tensor {} is missing", path, name));
    if (t->shape != e.shape)
      return bad_input(fmt::format("{}: tensor {} is [{}] and should be [{}]", path, name, fmt::join(t->shape, ", "),
                                   fmt::join(e.shape, ", ")));
    used.insert(name);
    out.push_back({e, t});
  }
  for (const io::GgufTensor& t : gguf.tensors())
    if (!used.contains(t.name))
      return bad_input(fmt::format("{}: tensor {} is not part of this architecture", path, in_quotes(t.name)));
  return out;
}

// Writes one tensor row by row.
class TensorWriter {
 public:
  TensorWriter(const std::string& path, const ModelConfig& config, io::SafetensorsWriter& writer)
      : path_(path), config_(config), writer_(writer) {}

  Status write(const Source& source, const std::function<void(uint64_t)>& advance) {
    const io::GgufTensor& t = *source.tensor;
    const auto columns = static_cast<size_t>(t.row_elements());
    const int64_t rows = t.shape.size() == 2 ? t.shape[0] : 1;
    const size_t row_bytes = columns / t.type->block_elements * t.type->block_bytes;
    floats_.resize(columns);
    pending_.clear();
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t from = gguf_source_row(config_, source.target.name, row);
      io::gguf_dequantise(*t.type, t.data.data() + static_cast<size_t>(from) * row_bytes, columns, floats_.data());
      ZU_TRY(round_row(t, from));
      if (pending_.size() < kPendingWeights && row + 1 < rows) continue;
      ZU_TRY(writer_.write(source.target.name, std::as_bytes(std::span(pending_))));
      if (interrupt_requested()) return interrupted();
      advance(pending_.size());
      pending_.clear();
    }
    return {};
  }

 private:
  static constexpr size_t kPendingWeights = size_t{1} << 20;

  Status round_row(const io::GgufTensor& t, int64_t row) {
    for (size_t i = 0; i < floats_.size(); ++i) {
      const uint16_t bits = num::float_to_bf16(floats_[i]);
      if (!num::is_finite(num::bf16_to_float(bits)))
        return bad_input(fmt::format("{}: tensor {} ({}) holds {} at row {}, column {}: a scale or value is not finite in BF16",
                                     path_, in_quotes(t.name), t.type->name, floats_[i], row, i));
      pending_.push_back(bits);
    }
    return {};
  }

  const std::string& path_;
  const ModelConfig& config_;
  io::SafetensorsWriter& writer_;
  std::vector<float> floats_;
  std::vector<uint16_t> pending_;
};

Status write_text(const fs::path& path, const std::string& text) {
  ZU_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path, false));
  ZU_TRY(file.write(text));
  return file.commit();
}

Status write_weights(const fs::path& folder, const std::vector<Source>& sources, const std::string& gguf_path,
                     const GgufImportOptions& options, GgufImportReport& report) {
  std::vector<io::TensorSpec> specs;
  for (const Source& s : sources) {
    specs.push_back({s.target.name, Dtype::kBF16, s.target.shape});
    report.weights += static_cast<uint64_t>(s.tensor->elements());
  }
  ZU_TRY_ASSIGN(auto writer, io::SafetensorsWriter::create(folder / "model.safetensors", specs, {{"format", "pt"}}, false));
  uint64_t done = 0;
  const auto advance = [&](uint64_t weights) {
    done += weights;
    if (options.progress) options.progress(done, report.weights);
  };
  TensorWriter tensors(gguf_path, report.config, writer);
  for (const Source& s : sources) ZU_TRY(tensors.write(s, advance));
  report.tensors = static_cast<int64_t>(sources.size());
  report.bytes_out = writer.data_bytes();
  return writer.commit();
}

}  // namespace

std::string gguf_tensor_name(const std::string& name) {
  for (const PartNames& p : kTopParts)
    if (name == p.hf) return std::string(p.gguf);
  const size_t end_of_layer = name.find('.', kLayerPrefix.size());
  const size_t end_of_part = name.rfind('.');
  if (!name.starts_with(kLayerPrefix) || end_of_layer == std::string::npos || end_of_part <= end_of_layer) return "";
  const std::string layer = name.substr(kLayerPrefix.size(), end_of_layer - kLayerPrefix.size());
  const std::string_view part = std::string_view(name).substr(end_of_layer + 1, end_of_part - end_of_layer - 1);
  for (const PartNames& p : kLayerParts)
    if (part == p.hf) return fmt::format("blk.{}.{}{}", layer, p.gguf, name.substr(end_of_part));
  return "";
}

int64_t gguf_source_row(const ModelConfig& config, const std::string& name, int64_t row) {
  if (config.architecture != "llama" || !(name.ends_with(".q_proj.weight") || name.ends_with(".k_proj.weight"))) return row;
  const int64_t half = config.head_dim / 2;
  const int64_t head = row / config.head_dim, in_head = row % config.head_dim;
  return head * config.head_dim + 2 * (in_head % half) + in_head / half;
}

Result<GgufImportReport> import_gguf(const fs::path& gguf_path, const fs::path& folder, const GgufImportOptions& options) {
  ZU_TRY_ASSIGN(const io::GgufModel gguf, io::GgufModel::open(gguf_path));
  ZU_TRY_ASSIGN(const GgufKeys keys, GgufKeys::of(gguf));
  ZU_TRY_ASSIGN(const GgufConfig config, config_from_gguf(keys));
  GgufImportReport report;
  const io::Json parsed = config.config, generation = config.generation_config;
  ZU_TRY_ASSIGN(report.config, parse_config(parsed, &generation, gguf.path().string()));
  ZU_TRY_ASSIGN(const std::vector<Source> sources, match_tensors(gguf, report.config));
  ZU_TRY_ASSIGN(const GgufTokenizer tokenizer, tokenizer_from_gguf(keys, options.pre, report.config.vocab));
  report.pre = tokenizer.pre;
  report.parts = gguf.parts();
  report.bytes_in = gguf.file_bytes();

  ZU_TRY_ASSIGN(AtomicFolder out, AtomicFolder::create(folder, options.force));
  ZU_TRY(write_text(out.temporary() / "config.json", config.config.dump(2) + "\n"));
  ZU_TRY(write_text(out.temporary() / "generation_config.json", config.generation_config.dump(2) + "\n"));
  ZU_TRY(write_text(out.temporary() / "tokenizer.json", tokenizer.tokenizer_json));
  ZU_TRY(write_text(out.temporary() / "tokenizer_config.json", tokenizer.tokenizer_config.dump(2) + "\n"));
  ZU_TRY(write_weights(out.temporary(), sources, gguf.path().string(), options, report));
  ZU_TRY(out.commit());
  return report;
}

}  // namespace zeroulp::model
