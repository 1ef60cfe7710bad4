#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"
#include "io/json.h"
#include "model/tensor_names.h"
#include "num/bf16.h"
#include "num/fp16.h"

namespace zeroulp::model {
namespace fs = std::filesystem;
namespace {

constexpr io::JsonLimits kSmallJson = {.max_depth = 32, .max_bytes = 16u << 20};

bool is_float(Dtype dtype) { return dtype == Dtype::kBF16 || dtype == Dtype::kF16 || dtype == Dtype::kF32; }

// Buffers that old checkpoints store and that follow from the configuration.
bool is_derived(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

// "a, b, c and 7 more".
std::string listed(const std::vector<std::string>& items) {
  constexpr size_t kShown = 5;
  const size_t shown = std::min(items.size(), kShown);
  std::string text = fmt::format("{}", fmt::join(items.begin(), items.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (items.size() > shown) text += fmt::format(" and {} more", items.size() - shown);
  return text;
}

// Element i of a float tensor, from bytes without alignment.
float element(Dtype dtype, const std::byte* data, size_t i) {
  if (dtype == Dtype::kF32) {
    float value;
    std::memcpy(&value, data + 4 * i, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data + 2 * i, 2);
  return dtype == Dtype::kBF16 ? num::bf16_to_float(bits) : num::fp16_to_float(bits);
}

Error not_finite(const TensorFiles::Place& place, size_t i, float value) {
  return bad_input(fmt::format("{}: tensor {} holds {} at element {}; the model cannot be used", place.file->path().string(),
                               in_quotes(place.tensor->name), value, i));
}

// The file's JSON, or nothing if there is no such file.
Result<std::optional<io::Json>> optional_json(const fs::path& path, const io::JsonLimits& limits) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return std::optional<io::Json>();
  ZU_TRY_ASSIGN(io::Json json, io::read_json_file(path, limits));
  return std::optional<io::Json>(std::move(json));
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const fs::path& folder) {
  std::error_code ec;
  if (!fs::is_directory(folder, ec)) return bad_input(fmt::format("{}: is not a folder", folder.string()));
  Checkpoint out;
  out.folder_ = folder;
  const fs::path config_path = folder / "config.json";
  ZU_TRY_ASSIGN(const io::Json config, io::read_json_file(config_path, kSmallJson));
  ZU_TRY_ASSIGN(const auto generation, optional_json(folder / "generation_config.json", kSmallJson));
  ZU_TRY_ASSIGN(out.config_, parse_config(config, generation ? &*generation : nullptr, config_path.string()));
  ZU_TRY_ASSIGN(out.compressed_, parse_compressed_tensors(config, config_path.string()));
  ZU_TRY_ASSIGN(out.files_, TensorFiles::open(folder));
  out.notes_ = out.files_.notes();
  if (out.compressed_)
    out.notes_.push_back(fmt::format("{}: its linears are int8 already: what their rounding lost is not here. Profile w8a8-free keeps their codes and scales; for any "
                                     "other, give the original weights", folder.string()));
  ZU_TRY(out.check_tensors());
  ZU_TRY(out.check_head());
  ZU_TRY(out.add_tokenizer_stop_tokens());
  return out;
}

Status Checkpoint::check_tensors() {
  std::vector<std::string> missing, misshapen, unexpected, mistyped;
  std::map<std::string, bool, std::less<>> known;
  for (const ExpectedTensor& e : expected_tensors(config_)) {
    known.emplace(e.name, true);
    const auto place = files_.find(e.name);
    if (!place) {
      missing.push_back(e.name);
    } else if (place->tensor->shape != e.shape) {
      misshapen.push_back(fmt::format("{} is [{}] and should be [{}]", e.name, fmt::join(place->tensor->shape, ", "),
                                      fmt::join(e.shape, ", ")));
    } else if (is_integer(e.name)) {
      const std::string scale = e.name.substr(0, e.name.size() - kWeightSuffix.size()) + std::string(kWeightScaleSuffix);
      known.emplace(scale, true);
      const auto scales = files_.find(scale);
      if (place->tensor->dtype != Dtype::kI8)
        mistyped.push_back(fmt::format("{} is {}, and I8 by quantization_config", e.name, dtype_name(place->tensor->dtype)));
      else if (!scales)
        missing.push_back(scale);
      else if (scales->tensor->elements() != e.shape[0] || !is_float(scales->tensor->dtype))
        misshapen.push_back(fmt::format("{} is {} [{}] and should be {} floats", scale, dtype_name(scales->tensor->dtype), fmt::join(scales->tensor->shape, ", "), e.shape[0]));
    } else if (!is_float(place->tensor->dtype)) {
      mistyped.push_back(fmt::format("{} is {}", e.name, dtype_name(place->tensor->dtype)));
    }
  }
  for (const auto& [name, place] : files_.tensors()) {
    if (known.contains(name) || (config_.tied_head && name == kHeadName)) continue;
    if (is_derived(name)) {
      notes_.push_back(fmt::format("{}: tensor {} is ignored, it follows from the configuration", place.file->path().string(),
                                   in_quotes(name)));
    } else {
      unexpected.push_back(in_quotes(name));
    }
  }
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back("missing: " + listed(missing));
  if (!misshapen.empty()) parts.push_back("wrong shape: " + listed(misshapen));
  if (!mistyped.empty()) parts.push_back("not BF16, F16 or F32: " + listed(mistyped));
  if (!unexpected.empty()) parts.push_back("not part of this architecture: " + listed(unexpected));
  if (parts.empty()) return {};
  const bool only_head = parts.size() == 1 && missing.size() == 1 && missing[0] == kHeadName;
  return bad_input(fmt::format("{}: tensors do not fit config.json: {}{}", folder_.string(), fmt::join(parts, "; "),
                               only_head ? "; set tie_word_embeddings to true if the embedding is the head" : ""));
}

bool Checkpoint::is_integer(std::string_view name) const {
  return compressed_ && name.ends_with(kWeightSuffix) && compressed_->quantises(name.substr(0, name.size() - kWeightSuffix.size()));
}

Result<std::optional<Checkpoint::IntegerWeights>> Checkpoint::integers(std::string_view name) const {
  if (!is_integer(name)) return std::optional<IntegerWeights>();
  const auto codes = files_.find(name);
  const std::string scale_name = std::string(name.substr(0, name.size() - kWeightSuffix.size())) + std::string(kWeightScaleSuffix);
  const auto scales = files_.find(scale_name);
  ZU_CHECK(codes && scales);
  IntegerWeights out{reinterpret_cast<const int8_t*>(codes->file->data(*codes->tensor).data()), {}};
  const std::byte* data = scales->file->data(*scales->tensor).data();
  for (int64_t i = 0; i < scales->tensor->elements(); ++i) {
    out.scales.push_back(element(scales->tensor->dtype, data, static_cast<size_t>(i)));
    if (!(out.scales.back() > 0) || !num::is_finite(out.scales.back()))
      return bad_input(fmt::format("{}: tensor {} holds {} at element {}; a scale is a finite number above zero", scales->file->path().string(), in_quotes(scale_name), out.scales.back(), i));
  }
  return std::optional<IntegerWeights>(std::move(out));
}

Status Checkpoint::check_head() {
  const auto head = files_.find(kHeadName);
  if (!config_.tied_head || !head || is_integer(kHeadName)) return {};
  const auto embedding = files_.find(kEmbeddingName);
  const auto a = head->file->data(*head->tensor), b = embedding->file->data(*embedding->tensor);
  const bool equal =
      head->tensor->dtype == embedding->tensor->dtype && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
  if (!equal)
    notes_.push_back(fmt::format("{}: {} differs from {}, but tie_word_embeddings is true: the embedding is used as the head",
                                 folder_.string(), kHeadName, kEmbeddingName));
  return {};
}

// The id of tokenizer_config.json's eos_token joins the stop tokens.
Status Checkpoint::add_tokenizer_stop_tokens() {
  const fs::path path = folder_ / "tokenizer_config.json";
  ZU_TRY_ASSIGN(const auto tokenizer_config, optional_json(path, kSmallJson));
  if (!tokenizer_config || !tokenizer_config->is_object() || !tokenizer_config->contains("eos_token")) return {};
  const io::Json& eos = (*tokenizer_config)["eos_token"];
  const io::Json content = eos.is_object() ? eos.value("content", io::Json()) : eos;
  if (!content.is_string()) return {};
  ZU_TRY_ASSIGN(const auto tokenizer, optional_json(folder_ / "tokenizer.json", {}));
  if (!tokenizer || !tokenizer->is_object() || !tokenizer->contains("added_tokens") || !(*tokenizer)["added_tokens"].is_array())
    return {};
  for (const io::Json& token : (*tokenizer)["added_tokens"]) {
    if (!token.is_object() || !token.contains("content") || token["content"] != content || !token.contains("id")) continue;
    const io::Json& id = token["id"];
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(config_.vocab))
      return bad_input(fmt::format("{}: eos_token {} has id {}, but the vocabulary has {} rows", path.string(),
                                   in_quotes(content.get<std::string>()), id.dump(), config_.vocab));
    auto& stops = config_.stop_tokens;
    const auto stop = id.get<int32_t>();
    const auto at = std::lower_bound(stops.begin(), stops.end(), stop);
    if (at == stops.end() || *at != stop) stops.insert(at, stop);
  }
  return {};
}

const io::TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto place = files_.find(name);
  return place ? place->tensor : nullptr;
}

Result<std::vector<float>> Checkpoint::floats(std::string_view name) const {
  const auto place = files_.find(name);
  if (place && is_integer(name)) return float_rows(name, 0, place->tensor->shape[0]);
  ZU_CHECK(place && is_float(place->tensor->dtype));
  const std::byte* data = place->file->data(*place->tensor).data();
  std::vector<float> out(static_cast<size_t>(place->tensor->elements()));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = element(place->tensor->dtype, data, i);
    if (!num::is_finite(out[i])) return not_finite(*place, i, out[i]);
  }
  return out;
}

Result<std::vector<uint16_t>> Checkpoint::bf16(std::string_view name) const {
  const auto place = files_.find(name);
  ZU_CHECK(place && is_float(place->tensor->dtype));
  const std::byte* data = place->file->data(*place->tensor).data();
  std::vector<uint16_t> out(static_cast<size_t>(place->tensor->elements()));
  for (size_t i = 0; i < out.size(); ++i) {
    const float value = element(place->tensor->dtype, data, i);
    out[i] = num::float_to_bf16(value);
    if (!num::is_finite(num::bf16_to_float(out[i]))) return not_finite(*place, i, value);
  }
  return out;
}

Result<std::vector<float>> Checkpoint::float_rows(std::string_view name, int64_t begin, int64_t end) const {
  const auto place = files_.find(name);
  ZU_CHECK(place && place->tensor->shape.size() == 2);
  ZU_TRY_ASSIGN(const auto integer, integers(name));
  if (integer) {
    const int64_t k = place->tensor->shape[1];
    std::vector<float> out;
    out.reserve(static_cast<size_t>((end - begin) * k));
    for (int64_t row = begin; row < end; ++row)
      for (int64_t i = 0; i < k; ++i) out.push_back(static_cast<float>(integer->codes[row * k + i]) * integer->scales[static_cast<size_t>(row)]);
    return out;
  }
  ZU_CHECK(is_float(place->tensor->dtype));
  ZU_CHECK(0 <= begin && begin <= end && end <= place->tensor->shape[0]);
  const auto columns = static_cast<size_t>(place->tensor->shape[1]);
  const size_t first = static_cast<size_t>(begin) * columns;
  const std::byte* data = place->file->data(*place->tensor).data();
  std::vector<float> out(static_cast<size_t>(end - begin) * columns);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = element(place->tensor->dtype, data, first + i);
    if (!num::is_finite(out[i])) return not_finite(*place, first + i, out[i]);
  }
  return out;
}

}  // namespace zeroulp::model
