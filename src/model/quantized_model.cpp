#include "model/quantized_model.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "codec/packed.h"
#include "io/fields.h"
#include "model/identity.h"
#include "num/bits.h"

namespace zeroulp::model {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kHeaderFile = "zeroulp.json";
constexpr std::string_view kTensorFile = "model.safetensors";

// Takes tensors out of the map with their type and shape checked, and remembers which were wanted.
class Binder {
 public:
  Binder(const TensorMap& tensors, const std::string& name) : tensors_(tensors), name_(name) {}

  template <class T>
  const T* take(const std::string& tensor, Dtype dtype, const std::vector<int64_t>& shape) {
    const auto it = tensors_.find(tensor);
    if (it == tensors_.end()) {
      fail(fmt::format("{}: the tensor '{}' is missing", name_, tensor));
      return nullptr;
    }
    const Tensor& t = it->second;
    if (t.dtype != dtype || t.shape != shape) {
      fail(fmt::format("{}: the tensor '{}' is {} [{}], expected {} [{}]", name_, tensor, dtype_name(t.dtype), fmt::join(t.shape, ","),
                       dtype_name(dtype), fmt::join(shape, ",")));
      return nullptr;
    }
    if (reinterpret_cast<uintptr_t>(t.bytes.data()) % alignof(T) != 0) {
      fail(fmt::format("{}: the tensor '{}' is not aligned to its elements; write the file again with zeroulp", name_, tensor));
      return nullptr;
    }
    wanted_.insert(tensor);
    return reinterpret_cast<const T*>(t.bytes.data());
  }

  QuantizedLinear linear(const std::string& name, LinearShape shape, int width, bool bias) {
    QuantizedLinear l{shape.n, shape.k, width};
    l.codes = take<int8_t>(name + ".codes", Dtype::kI8, {shape.n, shape.k});
    l.scales = take<float>(name + ".scales", Dtype::kF32, {shape.n});
    if (bias) l.bias = take<float>(name + ".bias", Dtype::kF32, {shape.n});
    check_scales(name, l);
    return l;
  }

  const uint16_t* norm(const std::string& name, const std::vector<int64_t>& shape) {
    const auto* values = take<uint16_t>(name, Dtype::kBF16, shape);
    int64_t count = values == nullptr ? 0 : 1;
    for (const int64_t extent : shape) count *= extent;
    for (int64_t i = 0; i < count; ++i)
      if ((values[i] & 0x7F80) == 0x7F80) {
        fail(fmt::format("{}: {}[{}] is NaN or infinite (0x{:04x})", name_, name, i, values[i]));
        break;
      }
    return values;
  }

  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  Status finish() {
    for (const auto& [tensor, unused] : tensors_)
      if (!wanted_.contains(tensor)) fail(fmt::format("{}: the tensor '{}' is not part of this configuration", name_, tensor));
    if (!error_.empty()) return bad_input(error_);
    return {};
  }

 private:
  void check_scales(const std::string& name, const QuantizedLinear& l) {
    for (int64_t i = 0; l.scales != nullptr && i < l.n; ++i)
      if (!(l.scales[i] >= num::pow2(-40) && l.scales[i] <= num::pow2(8)))
        return fail(fmt::format("{}: {}.scales[{}] is {} (0x{:08x}), outside [2^-40, 2^8]", name_, name, i, l.scales[i],
                                num::bits_of(l.scales[i])));
    for (int64_t i = 0; l.bias != nullptr && i < l.n; ++i)
      if (!num::is_finite(l.bias[i])) return fail(fmt::format("{}: {}.bias[{}] is not finite", name_, name, i));
  }

  const TensorMap& tensors_;
  const std::string& name_;
  std::set<std::string, std::less<>> wanted_;
  std::string error_;
};

constexpr std::string_view kPow2RowScales = "power of two";

io::Json header_to_json(const QuantizedHeader& h) {
  io::Json json = {{"format", kModelFormat},
                   {"contract", kContract},
                   {"profile", h.profile},
                   {"config", config_to_json(h.config)},
                   {"linear_widths", h.linear_widths},
                   {"key_widths", h.key_widths}};
  if (h.pow2_row_scales) json["row_scales"] = kPow2RowScales;
  return json;
}

bool is_sha256(const std::string& text) { return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos; }

Result<QuantizedHeader> read_header(const io::Fields& fields, std::string& identity) {
  ZU_TRY_ASSIGN(const std::string format, fields.string("format"));
  if (format != kModelFormat)
    return fields.error("format", fmt::format("{} is not {}; use the zeroulp version that wrote it", in_quotes(format), kModelFormat));
  ZU_TRY_ASSIGN(const std::string contract, fields.string("contract"));
  if (contract != kContract) return fields.error("contract", fmt::format("made for {}, this build computes {}", in_quotes(contract), kContract));
  QuantizedHeader h;
  ZU_TRY_ASSIGN(h.profile, fields.string("profile"));
  ZU_TRY_ASSIGN(const io::Fields config, fields.object("config"));
  ZU_TRY_ASSIGN(h.config, config_from_json(config.json(), config.name()));
  ZU_TRY_ASSIGN(const io::Fields widths, fields.object("linear_widths"));
  for (const auto& [linear, width] : widths.json().items()) {
    ZU_TRY_ASSIGN(const int64_t bits, io::integer_of(width, fmt::format("{}: {}", widths.name(), in_quotes(linear)), 8, 15));
    h.linear_widths[linear] = static_cast<int>(bits);
  }
  ZU_TRY_ASSIGN(const std::vector<int64_t> key_widths, fields.integers("key_widths", 8, 15));
  h.key_widths.assign(key_widths.begin(), key_widths.end());
  if (fields.has("row_scales")) {
    ZU_TRY_ASSIGN(const std::string row_scales, fields.string("row_scales"));
    if (row_scales != kPow2RowScales)
      return fields.error("row_scales", fmt::format("{} is not known; {} or nothing may stand there", in_quotes(row_scales), in_quotes(kPow2RowScales)));
    h.pow2_row_scales = true;
  }
  h.recipe = std::make_shared<io::Json>(fields.has("recipe") ? fields.at("recipe") : io::Json::object());
  ZU_TRY_ASSIGN(identity, fields.string("identity"));
  if (!is_sha256(identity)) return fields.error("identity", fmt::format("{} is not 64 lower-case hexadecimal digits", in_quotes(identity)));
  return h;
}

Status check_widths(const QuantizedHeader& h, const std::string& name) {
  const auto good = [](int width) { return width == 8 || width == 15; };
  const ModelConfig& c = h.config;
  if (static_cast<int64_t>(h.key_widths.size()) != c.layers)
    return bad_input(fmt::format("{}: key_widths has {} entries for {} layers", name, h.key_widths.size(), c.layers));
  for (const int width : h.key_widths)
    if (!good(width)) return bad_input(fmt::format("{}: a key width of {} bits; 8 and 15 exist", name, width));
  std::set<std::string> expected = {"head"};
  for (int64_t layer = 0; layer < c.layers; ++layer)
    for (const std::string_view linear : kLinearNames) expected.insert(fmt::format("layers.{}.{}", layer, linear));
  for (const std::string& linear : expected) {
    const auto it = h.linear_widths.find(linear);
    if (it == h.linear_widths.end()) return bad_input(fmt::format("{}: linear_widths lacks '{}'", name, linear));
    if (!good(it->second)) return bad_input(fmt::format("{}: {} has a width of {} bits; 8 and 15 exist", name, linear, it->second));
  }
  if (h.linear_widths.size() != expected.size()) return bad_input(fmt::format("{}: linear_widths names linears that do not exist", name));
  return {};
}

}  // namespace

LinearShape linear_shape(const ModelConfig& c, LinearRole role) {
  switch (role) {
    case LinearRole::kQ: return {c.q_size(), c.hidden};
    case LinearRole::kK:
    case LinearRole::kV: return {c.kv_size(), c.hidden};
    case LinearRole::kO: return {c.hidden, c.q_size()};
    case LinearRole::kGate:
    case LinearRole::kUp: return {c.intermediate, c.hidden};
    case LinearRole::kDown: return {c.hidden, c.intermediate};
  }
  ZU_CHECK(false);
}

bool is_quantized_folder(const fs::path& folder) {
  std::error_code ec;
  return fs::is_regular_file(folder / kHeaderFile, ec);
}

Result<QuantizedModel> QuantizedModel::open(const fs::path& folder) {
  std::error_code ec;
  if (!fs::is_directory(folder, ec)) return bad_input(fmt::format("{}: there is no such folder", folder.string()));
  if (!is_quantized_folder(folder))
    return bad_input(fmt::format("{}: holds no {}; make one with: zeroulp quantize {} OUT", folder.string(), kHeaderFile, folder.string()));
  ZU_TRY_ASSIGN(const io::Json json, io::read_json_file(folder / kHeaderFile));
  ZU_TRY_ASSIGN(const io::Fields fields, io::Fields::of(json, (folder / kHeaderFile).string()));
  QuantizedModel m;
  ZU_TRY_ASSIGN(m.header_, read_header(fields, m.identity_));
  ZU_TRY_ASSIGN(io::SafetensorsFile file, codec::open_safetensors(folder / kTensorFile));
  m.file_ = std::make_shared<io::SafetensorsFile>(std::move(file));
  for (const io::TensorInfo& info : m.file_->tensors()) m.tensors_[info.name] = {info.dtype, info.shape, m.file_->data(info), {}};
  ZU_TRY(m.bind((folder / kTensorFile).string()));
  m.check_ = std::make_shared<IdentityCheck>(m.identity_text(), m.tensors_, m.file_, m.identity_, folder.string());
  return m;
}

Result<QuantizedModel> QuantizedModel::assemble(QuantizedHeader header, TensorMap tensors, const std::string& name) {
  QuantizedModel m;
  m.header_ = std::move(header);
  if (!m.header_.recipe) m.header_.recipe = std::make_shared<io::Json>(io::Json::object());
  m.tensors_ = std::move(tensors);
  m.tensors_["rope.frequencies"] =
      make_tensor(Dtype::kF32, {static_cast<int64_t>(m.header_.config.rope_frequencies.size())}, m.header_.config.rope_frequencies);
  ZU_TRY(m.bind(name));
  ZU_TRY(check_codes(m.tensors_, name));
  m.identity_ = m.compute_identity();
  return m;
}

Status QuantizedModel::bind(const std::string& name) {
  ModelConfig& c = header_.config;
  ZU_TRY(check_widths(header_, name));
  const num::RowRange rows = header_.pow2_row_scales ? num::kLinearPow2Range : num::kLinearRange;
  Binder b(tensors_, name);
  const auto* frequencies = b.take<float>("rope.frequencies", Dtype::kF32, {c.head_dim / 2});
  if (frequencies != nullptr) c.rope_frequencies.assign(frequencies, frequencies + c.head_dim / 2);
  for (const float w : c.rope_frequencies)
    if (!(w >= 0x1p-60f && w < 0x1p20f)) b.fail(fmt::format("{}: a rope frequency of {} is outside [2^-60, 2^20)", name, w));
  embedding_ = b.linear("embed", {c.vocab, c.hidden}, 15, false);
  head_ = c.tied_head ? embedding_ : b.linear("head", {c.vocab, c.hidden}, 15, false);
  head_.width = header_.linear_widths.at("head");
  head_.rows = rows;
  final_norm_ = b.norm("final_norm", {c.hidden});
  layers_.resize(static_cast<size_t>(c.layers));
  for (size_t i = 0; i < layers_.size(); ++i) {
    QuantizedLayer& layer = layers_[i];
    const std::string prefix = fmt::format("layers.{}.", i);
    layer.key_width = header_.key_widths[i];
    layer.input_norm = b.norm(prefix + "input_norm", {c.hidden});
    layer.post_norm = b.norm(prefix + "post_norm", {c.hidden});
    if (c.qk_norm) {
      layer.q_norm = b.norm(prefix + "q_norm", {c.heads, c.head_dim});
      layer.k_norm = b.norm(prefix + "k_norm", {c.kv_heads, c.head_dim});
    }
    for (int r = 0; r < kLinearsPerLayer; ++r) {
      const auto role = static_cast<LinearRole>(r);
      const std::string linear = prefix + std::string(kLinearNames[r]);
      const bool bias = c.qkv_bias && role <= LinearRole::kV;
      layer.linears[r] = b.linear(linear, linear_shape(c, role), header_.linear_widths.at(linear), bias);
      layer.linears[r].rows = rows;
    }
  }
  return b.finish();
}

Status QuantizedModel::save(const fs::path& folder) const {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, t] : tensors_) specs.push_back({name, t.dtype, t.shape});
  io::sort_for_alignment(specs);
  ZU_TRY_ASSIGN(io::SafetensorsWriter writer, io::SafetensorsWriter::create(folder / kTensorFile, specs, {{"format", std::string(kModelFormat)}}, false));
  for (const io::TensorSpec& spec : specs) ZU_TRY(writer.write(spec.name, tensors_.find(spec.name)->second.bytes));
  ZU_TRY(writer.commit());
  io::Json json = header_to_json(header_);
  json["recipe"] = header_.recipe ? *header_.recipe : io::Json::object();
  json["identity"] = identity_;
  ZU_TRY_ASSIGN(AtomicFile file, AtomicFile::create(folder / kHeaderFile, false));
  ZU_TRY(file.write(json.dump(1) + "\n"));
  return file.commit();
}

int64_t QuantizedModel::weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, t] : tensors_) bytes += static_cast<int64_t>(t.bytes.size());
  return bytes;
}

std::string QuantizedModel::identity_text() const {
  io::Json json = header_to_json(header_);
  json.erase("profile");
  return json.dump();
}

std::string QuantizedModel::compute_identity() const { return identity_of(identity_text(), tensors_); }

Status QuantizedModel::verify_identity() const { return check_ ? check_->result() : Status(); }

}  // namespace zeroulp::model
