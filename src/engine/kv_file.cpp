#include "engine/kv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/text.h"
#include "num/digest.h"

namespace zeroulp::engine {
namespace {

namespace kv = ops::kv_cache;
using io::TensorSpec;

std::string name_of(int64_t layer, std::string_view part) { return fmt::format("layers.{}.{}", layer, part); }

// All tensors of a file, in the order in which they lie.
std::vector<TensorSpec> specs_of(const model::QuantizedModel& model, int64_t tokens, int64_t positions) {
  const int64_t heads = model.config().kv_heads, d = model.config().head_dim;
  std::vector<TensorSpec> specs = {{"tokens", Dtype::kI32, {tokens}}};
  for (int64_t l = 0; l < model.config().layers; ++l) {
    specs.push_back({name_of(l, "key_scales"), Dtype::kF32, {heads, positions}});
    specs.push_back({name_of(l, "key_hi"), Dtype::kI8, {heads, positions, d}});
    if (model.layers()[static_cast<size_t>(l)].key_width == 15) specs.push_back({name_of(l, "key_lo"), Dtype::kI8, {heads, positions, d}});
    specs.push_back({name_of(l, "values"), Dtype::kI8, {heads, positions, d}});
    specs.push_back({name_of(l, "value_exponents"), Dtype::kI8, {heads, positions}});
  }
  io::sort_for_alignment(specs);
  return specs;
}

// The tensors' bytes by name.
using Parts = std::map<std::string, std::vector<std::byte>, std::less<>>;

// A block's positions behind those of the blocks before.
void append_block(const std::byte* block, const kv::Layout& l, int64_t positions, int64_t layer, Parts& parts) {
  const kv::View<const std::byte> v(block, l);
  const auto append = [&](std::string_view part, const void* from, int64_t bytes) {
    std::vector<std::byte>& to = parts[name_of(layer, part)];
    to.insert(to.end(), static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  };
  append("key_hi", v.key_hi, positions * l.d);
  if (v.key_lo != nullptr) append("key_lo", v.key_lo, positions * l.d);
  append("key_scales", v.key_scales, positions * 4);
  append("value_exponents", v.value_exponents, positions);
  std::vector<int8_t> rows(static_cast<size_t>(positions * l.d));  // values lie transposed in a block
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < l.d; ++i) rows[static_cast<size_t>(p * l.d + i)] = v.values[i * kv::kBlock + p];
  append("values", rows.data(), positions * l.d);
}

num::Digest digest_of_parts(const io::SafetensorsFile& file) {
  const std::vector<io::TensorInfo>& tensors = file.tensors();
  if (tensors.empty()) return num::xxh3_128({});
  const std::span<const std::byte> first = file.data(tensors.front()), last = file.data(tensors.back());
  return num::xxh3_128({first.data(), last.data() + last.size()});
}

Error refuse(const io::SafetensorsFile& file, std::string_view why) { return bad_input(fmt::format("{}: {}", file.path().string(), why)); }

}  // namespace

Result<codec::PackReport> save_kv(Engine& engine, const model::QuantizedModel& model, int64_t sequence, std::span<const int32_t> tokens,
                                  const std::filesystem::path& path, const codec::PackOptions& options) {
  const int64_t positions = engine.length(sequence);
  ZU_CHECK(positions > 0 && positions <= static_cast<int64_t>(tokens.size()));
  Parts parts;
  parts["tokens"].assign(std::as_bytes(tokens).begin(), std::as_bytes(tokens).end());
  std::vector<std::byte> block;
  for (int64_t layer = 0; layer < model.config().layers; ++layer) {
    const kv::Layout layout = engine.kv_layout(layer);
    block.resize(static_cast<size_t>(layout.bytes()));
    for (int64_t head = 0; head < model.config().kv_heads; ++head)
      for (int64_t first = 0; first < positions; first += kv::kBlock) {
        ZU_TRY(engine.read_kv(sequence, layer, head, first / kv::kBlock, block));
        append_block(block.data(), layout, std::min(kv::kBlock, positions - first), layer, parts);
      }
  }
  std::vector<std::byte> data;
  const std::vector<TensorSpec> specs = specs_of(model, static_cast<int64_t>(tokens.size()), positions);
  for (const TensorSpec& t : specs) {
    const std::vector<std::byte>& part = parts.at(t.name);
    data.insert(data.end(), part.begin(), part.end());
  }
  const io::Metadata metadata = {{"format", kKvFormat}, {"model", model.identity()}, {"contract", std::string(model::kContract)}, {"xxh3_128", num::xxh3_128(data).hex()}};
  ZU_TRY_ASSIGN(const std::string beginning, io::safetensors_beginning(path, specs, metadata));
  ZU_TRY_ASSIGN(MappedFile image, MappedFile::filled(path, beginning.size() + data.size(), [&](std::span<std::byte> to) -> Status {
                  std::memcpy(to.data(), beginning.data(), beginning.size());
                  std::memcpy(to.data() + beginning.size(), data.data(), data.size());
                  return {};
                }));
  return codec::pack_image(std::move(image), path, options);
}

Result<SavedKv> SavedKv::open(const std::filesystem::path& path, const model::QuantizedModel& model) {
  SavedKv saved;
  ZU_TRY_ASSIGN(saved.file_, codec::open_safetensors(path));
  ZU_TRY(saved.read(model));
  ZU_TRY(saved.check_codes(model));
  return saved;
}

Status SavedKv::read(const model::QuantizedModel& model) {
  const auto metadata = [&](const char* key) {
    const auto it = file_.metadata().find(key);
    return it == file_.metadata().end() ? std::string() : it->second;
  };
  if (metadata("format") != kKvFormat) return refuse(file_, fmt::format("is no saved KV cache: its format is {}, not {}", in_quotes(metadata("format")), in_quotes(kKvFormat)));
  if (metadata("contract") != model::kContract)
    return refuse(file_, fmt::format("was computed under contract {}; this program has {}, so its tokens must be computed again", in_quotes(metadata("contract")), model::kContract));
  if (metadata("model") != model.identity())
    return refuse(file_, fmt::format("is the cache of another model: {}, not {}", in_quotes(metadata("model")), model.identity()));

  const io::TensorInfo* tokens = file_.find("tokens");
  const io::TensorInfo* scales = file_.find(name_of(0, "key_scales"));
  if (tokens == nullptr || tokens->dtype != Dtype::kI32 || tokens->shape.size() != 1 || scales == nullptr || scales->shape.size() != 2)
    return refuse(file_, "lacks its tokens or the key scales of layer 0");
  positions_ = scales->shape[1];
  kv_heads_ = model.config().kv_heads;
  d_ = model.config().head_dim;
  const std::vector<TensorSpec> specs = specs_of(model, tokens->shape[0], positions_);
  if (file_.tensors().size() != specs.size()) return refuse(file_, fmt::format("has {} tensors; a cache of this model has {}", file_.tensors().size(), specs.size()));
  for (size_t i = 0; i < specs.size(); ++i) {
    const io::TensorInfo& t = file_.tensors()[i];
    if (t.name != specs[i].name || t.dtype != specs[i].dtype || t.shape != specs[i].shape)
      return refuse(file_, fmt::format("tensor {} has not the name, type or shape of {} in a cache of {} positions", in_quotes(t.name), in_quotes(specs[i].name), positions_));
  }
  if (positions_ < 1 || positions_ > tokens->shape[0]) return refuse(file_, fmt::format("{} positions and {} tokens do not go together", positions_, tokens->shape[0]));
  if (digest_of_parts(file_).hex() != metadata("xxh3_128")) return refuse(file_, "its tensors do not have the digest that it names: the file is damaged");

  tokens_.resize(static_cast<size_t>(tokens->shape[0]));
  std::memcpy(tokens_.data(), file_.data(*tokens).data(), file_.data(*tokens).size());
  for (const int32_t token : tokens_)
    if (token < 0 || token >= model.config().vocab) return refuse(file_, fmt::format("token {} is outside the model's vocabulary of {}", token, model.config().vocab));
  const auto part = [&](int64_t layer, std::string_view what) {
    const io::TensorInfo* t = file_.find(name_of(layer, what));
    return t == nullptr ? std::span<const std::byte>() : file_.data(*t);
  };
  for (int64_t l = 0; l < model.config().layers; ++l)
    layers_.push_back({part(l, "key_hi"), part(l, "key_lo"), part(l, "key_scales"), part(l, "values"), part(l, "value_exponents")});
  return {};
}

// What ops/kv_cache/contract.h lets the engine store: the bounds of exact sums rest on it.
Status SavedKv::check_codes(const model::QuantizedModel& model) const {
  const float least = num::quant_scale(num::bf16_to_float(num::kAttentionRange.min_bits), 15), most = num::quant_scale(num::bf16_to_float(num::kAttentionRange.max_bits), 8);
  const int lowest = num::pow2_scale_exponent(num::kAttentionRange.min_bits), highest = num::pow2_scale_exponent(num::kAttentionRange.max_bits);
  const auto at = [](std::span<const std::byte> bytes, size_t i) { return static_cast<int>(static_cast<int8_t>(bytes[i])); };
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    const bool wide = model.layers()[l].key_width == 15;
    const int top = static_cast<int>(num::quant_top(wide ? 15 : 8));
    bool fits = true;
    for (size_t i = 0; i < layer.key_hi.size(); ++i) {
      const int hi = at(layer.key_hi, i), lo = wide ? at(layer.key_lo, i) : 0, key = wide ? 128 * hi + lo : hi;
      fits = fits && std::abs(key) <= top && (!wide || num::plane_hi(key) == hi) && at(layer.values, i) > -128;
    }
    for (size_t i = 0; i < layer.value_exponents.size(); ++i) {
      float scale = 0;
      std::memcpy(&scale, layer.key_scales.data() + 4 * i, 4);
      const int e = at(layer.value_exponents, i);
      const auto row = layer.values.subspan(i * static_cast<size_t>(d_), static_cast<size_t>(d_));
      const bool zero = std::all_of(row.begin(), row.end(), [](std::byte b) { return b == std::byte{0}; });
      fits = fits && scale >= least && scale <= most && (e == kv::kZeroRow ? zero : e >= lowest && e <= highest);
    }
    if (!fits) return refuse(file_, fmt::format("layer {} holds codes, scales or exponents that the contract does not have", l));
  }
  return {};
}

Status SavedKv::restore(Engine& engine, int64_t sequence, int64_t positions) const {
  ZU_CHECK(positions >= 0 && positions <= positions_ && static_cast<int64_t>(layers_.size()) == engine.config().layers);
  return engine.restore_kv(sequence, std::span(tokens_).first(static_cast<size_t>(positions)), [&](int64_t layer, int64_t head, int64_t block, std::span<std::byte> to) {
    const kv::Layout l = engine.kv_layout(layer);
    const Layer& from = layers_[static_cast<size_t>(layer)];
    std::fill(to.begin(), to.end(), std::byte{0});
    const kv::View<std::byte> v(to.data(), l);
    const int64_t first = block * kv::kBlock, count = std::min(kv::kBlock, positions - first), row = head * positions_ + first;
    const auto copy = [&](void* target, std::span<const std::byte> part, int64_t width) {
      std::memcpy(target, part.data() + row * width, static_cast<size_t>(count * width));
    };
    copy(v.key_hi, from.key_hi, l.d);
    if (v.key_lo != nullptr) copy(v.key_lo, from.key_lo, l.d);
    copy(v.key_scales, from.key_scales, 4);
    copy(v.value_exponents, from.value_exponents, 1);
    const auto* values = reinterpret_cast<const int8_t*>(from.values.data()) + row * l.d;
    for (int64_t p = 0; p < count; ++p)
      for (int64_t i = 0; i < l.d; ++i) v.values[i * kv::kBlock + p] = values[p * l.d + i];
  });
}

}  // namespace zeroulp::engine
