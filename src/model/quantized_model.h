// A quantised model: integer codes, scales and norms under the contract, in a folder (docs/spec/model.md).
//
//   zeroulp.json        format, contract version, configuration, widths, recipe, identity
//   model.safetensors   the logical tensors
//   tokenizer files     as the original has them
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "model/config.h"
#include "num/quant.h"
#include "tensor/dtype.h"

namespace zeroulp::model {

inline constexpr std::string_view kContract = "ZNC-1";
inline constexpr std::string_view kModelFormat = "zeroulp-model/1";

// The linears of a layer, in the order of computing.
enum class LinearRole { kQ, kK, kV, kO, kGate, kUp, kDown };
inline constexpr std::string_view kLinearNames[] = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
inline constexpr int kLinearsPerLayer = 7;

struct LinearShape {
  int64_t n, k;
};
LinearShape linear_shape(const ModelConfig& config, LinearRole role);

// int8 codes [n, k] with one fp32 scale per output channel; the input is quantised to `width` bits (8 or 15).
struct QuantizedLinear {
  int64_t n = 0, k = 0;
  int width = 15;
  const int8_t* codes = nullptr;
  const float* scales = nullptr;
  const float* bias = nullptr;  // fp32 [n], or null
  num::RowRange rows = num::kLinearRange;  // of the input: its range, and the rule of its scales
};

struct QuantizedLayer {
  QuantizedLinear linears[kLinearsPerLayer];
  const uint16_t* input_norm = nullptr;      // bf16 [hidden]
  const uint16_t* post_norm = nullptr;       // bf16 [hidden]
  const uint16_t* q_norm = nullptr;          // bf16 [heads, head_dim], or null
  const uint16_t* k_norm = nullptr;          // bf16 [kv_heads, head_dim], or null
  int key_width = 15;                        // 8 or 15: bits of cached keys

  const QuantizedLinear& operator[](LinearRole role) const { return linears[static_cast<int>(role)]; }
};

// A tensor's bytes, owned or pointing into a mapped file that the model keeps.
struct Tensor {
  Dtype dtype = Dtype::kU8;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const std::vector<std::byte>> owned;  // null when mapped
};
using TensorMap = std::map<std::string, Tensor, std::less<>>;

template <class T>
Tensor make_tensor(Dtype dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Tensor t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  const auto bytes = std::as_bytes(std::span(values));
  t.owned = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  t.bytes = *t.owned;
  return t;
}

// What is stored beside the tensors. `linear_widths` by "layers.N.q_proj" and "head".
struct QuantizedHeader {
  ModelConfig config;
  std::string profile;  // "w8a15-free", "w8a8-po2", "w8a15-po2", "mixed", "w8a8-free", "both-po2"
  std::map<std::string, int> linear_widths;
  std::vector<int> key_widths;  // per layer
  bool pow2_row_scales = false; // inputs of linears too have power-of-two scales (profile both-po2)
  std::shared_ptr<const io::Json> recipe;  // how it was made, never null once opened; not part of the identity
};

class IdentityCheck;

class QuantizedModel {
 public:
  // Opens a folder. Header, names, types, shapes, widths, scales, biases and norms are checked at once; codes and identity, for which all
  // tensors must be read, are being checked on a thread of their own. verify_identity() waits for that, and an engine does before it hands
  // out its first logits.
  static Result<QuantizedModel> open(const std::filesystem::path& folder);
  // Builds a model from tensors in memory. `name` opens error lines.
  static Result<QuantizedModel> assemble(QuantizedHeader header, TensorMap tensors, const std::string& name);

  // Writes zeroulp.json and model.safetensors into an existing folder (an AtomicFolder's temporary, say). The same model gives the same
  // bytes.
  Status save(const std::filesystem::path& folder) const;

  const ModelConfig& config() const { return header_.config; }
  const QuantizedHeader& header() const { return header_; }
  const std::vector<QuantizedLayer>& layers() const { return layers_; }
  const QuantizedLinear& embedding() const { return embedding_; }  // codes [vocab, hidden]; width unused
  const QuantizedLinear& head() const { return head_; }            // the embedding's codes when tied
  const uint16_t* final_norm() const { return final_norm_; }
  const TensorMap& tensors() const { return tensors_; }
  int64_t weight_bytes() const;

  // SHA-256 over the configuration with its widths and the logical tensors by name; independent of file layout and recipe.
  std::string compute_identity() const;
  // As stored in zeroulp.json; computed for assembled models.
  const std::string& identity() const { return identity_; }
  // Exit code 3 when the files are not what the header says, or hold a code of -128. Costs its time once.
  Status verify_identity() const;

 private:
  Status bind(const std::string& name);
  std::string identity_text() const;  // what the identity covers beside the tensors

  QuantizedHeader header_;
  std::shared_ptr<io::SafetensorsFile> file_;
  TensorMap tensors_;
  std::vector<QuantizedLayer> layers_;
  QuantizedLinear embedding_, head_;
  const uint16_t* final_norm_ = nullptr;
  std::string identity_;
  std::shared_ptr<IdentityCheck> check_;  // of an opened folder; null: assembled here
};

// The configuration as zeroulp.json stores it, rope frequencies apart (they are a tensor).
io::Json config_to_json(const ModelConfig& config);
Result<ModelConfig> config_from_json(const io::Json& json, const std::string& name);

// True when `folder` holds a zeroulp.json.
bool is_quantized_folder(const std::filesystem::path& folder);

}  // namespace zeroulp::model
