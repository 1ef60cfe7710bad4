// A Hugging Face folder: configuration, stop tokens and float tensors (safetensors, one file or shards), checked against each other
// before any use. Tensors stay in the memory map; a read converts one of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/safetensors.h"
#include "model/compressed_tensors.h"
#include "model/config.h"

namespace zeroulp::model {

// The tensors of one folder, wherever their shards are. The name of every tensor is unique.
class TensorFiles {
 public:
  // model.safetensors.index.json with its shards if there is one, else model.safetensors.
  static Result<TensorFiles> open(const std::filesystem::path& folder);
  // One safetensors file alone.
  static Result<TensorFiles> open_file(const std::filesystem::path& path);

  struct Place {
    const io::SafetensorsFile* file;
    const io::TensorInfo* tensor;
  };
  const std::map<std::string, Place, std::less<>>& tensors() const { return places_; }
  std::optional<Place> find(std::string_view name) const;
  const std::vector<io::SafetensorsFile>& files() const { return files_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Status open_shards(const std::filesystem::path& folder, const io::Json& index, const std::string& index_name);

  std::vector<io::SafetensorsFile> files_;  // never grows once places_ points into it
  std::map<std::string, Place, std::less<>> places_;
  std::vector<std::string> notes_;
};

class Checkpoint {
 public:
  // Refuses a folder whose tensors are not exactly those that its configuration asks for, naming all that differ.
  static Result<Checkpoint> open(const std::filesystem::path& folder);

  const ModelConfig& config() const { return config_; }
  const std::filesystem::path& folder() const { return folder_; }
  // One line each, for stderr: what was ignored, and why.
  const std::vector<std::string>& notes() const { return notes_; }

  bool has(std::string_view name) const { return files_.find(name).has_value(); }
  // Shape and stored type; null if absent.
  const io::TensorInfo* find(std::string_view name) const;
  const TensorFiles& files() const { return files_; }

  // int8 codes with a scale per row, of a compressed-tensors checkpoint; floats() and float_rows() give code * scale, rounded once.
  struct IntegerWeights {
    const int8_t* codes;        // [n, k], -128 to 127
    std::vector<float> scales;  // [n]
  };
  bool is_compressed() const { return compressed_.has_value(); }
  // Nothing if the tensor is not of that kind. A scale that is not a finite number above zero is refused.
  Result<std::optional<IntegerWeights>> integers(std::string_view name) const;

  // The values of a BF16, F16 or F32 tensor: exact as float, rounded to nearest even as BF16 bits (BF16 tensors come as they are).
  // NaN and infinity, also by rounding, are refused naming the tensor and the element.
  Result<std::vector<float>> floats(std::string_view name) const;
  Result<std::vector<uint16_t>> bf16(std::string_view name) const;
  // Rows [begin, end) of a matrix, for those who cannot hold it whole.
  Result<std::vector<float>> float_rows(std::string_view name, int64_t begin, int64_t end) const;

 private:
  Status check_tensors();
  bool is_integer(std::string_view name) const;
  Status check_head();
  Status add_tokenizer_stop_tokens();

  std::filesystem::path folder_;
  ModelConfig config_;
  std::optional<CompressedTensors> compressed_;
  TensorFiles files_;
  std::vector<std::string> notes_;
};

}  // namespace zeroulp::model
