#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"
#include "io/json.h"

namespace zeroulp::io {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr int kMaxDepth = 4;
constexpr auto kMaxInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

// The header's text, once its length is known to lie inside the file.
Result<std::string_view> header_text(std::span<const std::byte> file, std::string_view name) {
  if (file.size() < kLengthBytes)
    return bad_input(fmt::format("{}: {} bytes, too short for a safetensors header", name, file.size()));
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kSafetensorsHeaderLimit)
    return bad_input(fmt::format("{}: header length {} is above the limit of {}; not a safetensors file?", name, length,
                                 kSafetensorsHeaderLimit));
  if (length > file.size() - kLengthBytes)
    return bad_input(fmt::format("{}: the header of {} bytes does not fit into the file of {} bytes (truncated?)", name, length,
                                 file.size()));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (text.empty() || text.front() != '{')
    return bad_input(fmt::format("{}: the header does not start with '{{'; not a safetensors file?", name));
  return text;
}

Result<Metadata> read_metadata(const Json& json, std::string_view name) {
  if (!json.is_object()) return bad_input(fmt::format("{}: __metadata__ is not an object", name));
  Metadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string())
      return bad_input(fmt::format("{}: __metadata__: the value of {} is not a string", name, in_quotes(key)));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

Result<uint64_t> read_size(const Json& json, std::string_view what) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > kMaxInt64)
    return bad_input(
        fmt::format("{}: {} is not a size", what, in_quotes(json.dump(-1, ' ', true, Json::error_handler_t::replace))));
  return json.get<uint64_t>();
}

Result<std::vector<int64_t>> read_shape(const Json& json, std::string_view what) {
  if (!json.is_array()) return bad_input(fmt::format("{}: shape is not a list", what));
  if (json.size() > kMaxRank)
    return bad_input(fmt::format("{}: rank {} is above the limit of {}", what, json.size(), kMaxRank));
  std::vector<int64_t> shape;
  for (const Json& dim : json) {
    ZU_TRY_ASSIGN(const uint64_t size, read_size(dim, fmt::format("{}: shape", what)));
    shape.push_back(static_cast<int64_t>(size));
  }
  return shape;
}

// One header entry; offset is still relative to the data.
Result<TensorInfo> read_entry(const std::string& key, const Json& json, std::string_view name) {
  const std::string what = fmt::format("{}: tensor {}", name, in_quotes(key));
  if (!json.is_object()) return bad_input(fmt::format("{}: its entry is not an object", what));
  for (const char* field : {"dtype", "shape", "data_offsets"})
    if (!json.contains(field)) return bad_input(fmt::format("{}: {} is missing", what, field));
  if (json.size() != 3) return bad_input(fmt::format("{}: has fields besides dtype, shape and data_offsets", what));

  TensorInfo info;
  info.name = key;
  const Json& dtype = json["dtype"];
  const auto known = dtype.is_string() ? dtype_from_name(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!known)
    return bad_input(
        fmt::format("{}: unknown dtype {}", what, dtype.is_string() ? in_quotes(dtype.get<std::string>()) : "(not a string)"));
  info.dtype = *known;
  ZU_TRY_ASSIGN(info.shape, read_shape(json["shape"], what));
  ZU_TRY_ASSIGN(info.bytes, tensor_bytes(info.dtype, info.shape, what));

  const Json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) return bad_input(fmt::format("{}: data_offsets is not a pair", what));
  ZU_TRY_ASSIGN(const uint64_t begin, read_size(offsets[0], fmt::format("{}: data_offsets", what)));
  ZU_TRY_ASSIGN(const uint64_t end, read_size(offsets[1], fmt::format("{}: data_offsets", what)));
  if (end < begin) return bad_input(fmt::format("{}: data_offsets [{}, {}] run backwards", what, begin, end));
  if (end - begin != info.bytes)
    return bad_input(
        fmt::format("{}: data_offsets cover {} bytes, but dtype and shape need {}", what, end - begin, info.bytes));
  info.offset = begin;
  return info;
}

// Sorts by offset and proves that the tensors tile [0, size) exactly.
Status check_tiling(std::vector<TensorInfo>& tensors, uint64_t size, std::string_view name) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  uint64_t end = 0;
  for (const TensorInfo& t : tensors) {
    if (t.offset != end)
      return bad_input(
          fmt::format("{}: tensor {} begins at byte {} of the data, but {} (the end of the tensor before) was due: {}", name,
                      in_quotes(t.name), t.offset, end, t.offset > end ? "a hole" : "an overlap"));
    end =
        t.offset + t.bytes;  // both <= 2^63-1, so the sum does not wrap; it is compared with `size` below or as the next begin
  }
  if (end > size)
    return bad_input(fmt::format("{}: the tensors need {} bytes of data, but the file holds {} (truncated?)", name, end, size));
  if (end < size) return bad_input(fmt::format("{}: {} bytes follow the last tensor", name, size - end));
  return {};
}

}  // namespace

int64_t TensorInfo::elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

Result<uint64_t> tensor_bytes(Dtype dtype, std::span<const int64_t> shape, std::string_view what) {
  if (shape.size() > kMaxRank)
    return bad_input(fmt::format("{}: rank {} is above the limit of {}", what, shape.size(), kMaxRank));
  uint64_t bits = static_cast<uint64_t>(dtype_bits(dtype));
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) return bad_input(fmt::format("{}: shape [{}] has a negative size", what, fmt::join(shape, ", ")));
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bits, static_cast<uint64_t>(dim), &bits) || bits > kMaxInt64) {
      return bad_input(fmt::format("{}: the size of shape [{}] overflows", what, fmt::join(shape, ", ")));
    }
  }
  if (empty) return uint64_t{0};
  if (bits % 8 != 0)
    return bad_input(fmt::format("{}: shape [{}] of {} ends inside a byte", what, fmt::join(shape, ", "), dtype_name(dtype)));
  return bits / 8;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file, std::string_view name) {
  ZU_TRY_ASSIGN(const std::string_view text, header_text(file, name));
  ZU_TRY_ASSIGN(const Json json, parse_json(text, name, {.max_depth = kMaxDepth, .max_bytes = kSafetensorsHeaderLimit}));
  const uint64_t data_begin = kLengthBytes + text.size();
  SafetensorsHeader header;
  for (const auto& [key, value] : json.items()) {
    if (key == "__metadata__") {
      ZU_TRY_ASSIGN(header.metadata, read_metadata(value, name));
      continue;
    }
    ZU_TRY_ASSIGN(TensorInfo info, read_entry(key, value, name));
    header.tensors.push_back(std::move(info));
  }
  ZU_TRY(check_tiling(header.tensors, file.size() - data_begin, name));
  for (TensorInfo& t : header.tensors) t.offset += data_begin;
  return header;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  ZU_TRY_ASSIGN(MappedFile file, MappedFile::open(path));
  return of(std::move(file));
}

Result<SafetensorsFile> SafetensorsFile::of(MappedFile file) {
  SafetensorsFile out;
  out.file_ = std::move(file);
  ZU_TRY_ASSIGN(out.header_, parse_safetensors(out.file_.bytes(), out.file_.path().string()));
  for (size_t i = 0; i < out.header_.tensors.size(); ++i) out.by_name_.emplace(out.header_.tensors[i].name, i);
  return out;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &header_.tensors[it->second];
}

std::span<const std::byte> SafetensorsFile::data(const TensorInfo& tensor) const {
  ZU_CHECK(tensor.offset <= file_bytes() && tensor.bytes <= file_bytes() - tensor.offset);
  return file_.bytes().subspan(tensor.offset, tensor.bytes);
}

}  // namespace zeroulp::io
