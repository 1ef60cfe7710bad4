#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace zeroulp::io {
namespace {

// Written by hand, so that the order of tensors is the caller's; JSON escaping is nlohmann's.
std::string header_json(const std::vector<TensorSpec>& tensors, const std::vector<uint64_t>& bytes, const Metadata& metadata) {
  std::string out = "{";
  if (!metadata.empty()) out += "\"__metadata__\":" + Json(metadata).dump();
  uint64_t offset = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (out.size() > 1) out += ',';
    out += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", Json(tensors[i].name).dump(),
                       dtype_name(tensors[i].dtype), fmt::join(tensors[i].shape, ","), offset, offset + bytes[i]);
    offset += bytes[i];
  }
  out += '}';
  constexpr size_t kLine = 64, kLengthBytes = 8;
  out.append((kLine - (kLengthBytes + out.size()) % kLine) % kLine, ' ');
  return out;
}

Status check_text(const std::vector<TensorSpec>& tensors, const Metadata& metadata, const std::string& path) {
  std::set<std::string_view> names;
  for (const TensorSpec& t : tensors) {
    if (t.name == "__metadata__" || !is_utf8(t.name))
      return bad_input(fmt::format("{}: {} cannot be the name of a tensor", path, in_quotes(t.name)));
    if (!names.insert(t.name).second) return bad_input(fmt::format("{}: two tensors are named {}", path, in_quotes(t.name)));
  }
  for (const auto& [key, value] : metadata)
    if (!is_utf8(key) || !is_utf8(value)) return bad_input(fmt::format("{}: metadata {} is not UTF-8", path, in_quotes(key)));
  return {};
}

Result<std::vector<uint64_t>> sizes_of(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors) {
  std::vector<uint64_t> bytes;
  uint64_t total = 0;
  for (const TensorSpec& t : tensors) {
    ZU_TRY_ASSIGN(const uint64_t size,
                  tensor_bytes(t.dtype, t.shape, fmt::format("{}: tensor {}", path.string(), in_quotes(t.name))));
    if (__builtin_add_overflow(total, size, &total))
      return bad_input(fmt::format("{}: the tensors' sizes overflow", path.string()));
    bytes.push_back(size);
  }
  return bytes;
}

}  // namespace

void sort_for_alignment(std::vector<TensorSpec>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const int a_bits = dtype_bits(a.dtype), b_bits = dtype_bits(b.dtype);
    return a_bits != b_bits ? a_bits > b_bits : a.name < b.name;
  });
}

Result<std::string> safetensors_beginning(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors, const Metadata& metadata) {
  ZU_TRY(check_text(tensors, metadata, path.string()));
  ZU_TRY_ASSIGN(const std::vector<uint64_t> bytes, sizes_of(path, tensors));
  const std::string json = header_json(tensors, bytes, metadata);
  if (json.size() > kSafetensorsHeaderLimit)
    return bad_input(fmt::format("{}: {} tensors make a header of {} bytes, above the limit of {}; write shards", path.string(),
                                 tensors.size(), json.size(), kSafetensorsHeaderLimit));
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                                                    const Metadata& metadata, bool force) {
  ZU_TRY_ASSIGN(const std::string beginning, safetensors_beginning(path, tensors, metadata));
  ZU_TRY_ASSIGN(const std::vector<uint64_t> bytes, sizes_of(path, tensors));
  ZU_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path, force));
  SafetensorsWriter writer(std::move(file));
  for (size_t i = 0; i < tensors.size(); ++i) {
    writer.pending_.push_back({tensors[i].name, bytes[i]});
    writer.data_bytes_ += bytes[i];
  }
  ZU_TRY(writer.file_.write(beginning));
  writer.skip_finished();
  return writer;
}

void SafetensorsWriter::skip_finished() {
  while (current_ < pending_.size() && written_ == pending_[current_].bytes) {
    ++current_;
    written_ = 0;
  }
}

Status SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  ZU_CHECK(current_ < pending_.size() && pending_[current_].name == name);
  ZU_CHECK(bytes.size() <= pending_[current_].bytes - written_);
  ZU_TRY(file_.write(bytes));
  written_ += bytes.size();
  skip_finished();
  return {};
}

Status SafetensorsWriter::commit() {
  ZU_CHECK(current_ == pending_.size());
  return file_.commit();
}

}  // namespace zeroulp::io
