#include <fmt/format.h>

#include <charconv>

#include "base/text.h"
#include "io/gguf.h"

namespace zeroulp::io {
namespace fs = std::filesystem;
namespace {

// "NAME-00002-of-00003.gguf" taken apart.
struct PartName {
  std::string stem;
  int64_t number = 0, count = 0;  // number from 1
};

std::string part_name(const std::string& stem, int64_t number, int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, number, count);
}

std::optional<PartName> parse_part_name(const std::string& file) {
  constexpr size_t kTail = 20;  // -00002-of-00003.gguf
  if (file.size() <= kTail) return std::nullopt;
  const std::string tail = file.substr(file.size() - kTail);
  PartName out;
  out.stem = file.substr(0, file.size() - kTail);
  std::from_chars(tail.data() + 1, tail.data() + 6, out.number);
  std::from_chars(tail.data() + 10, tail.data() + 15, out.count);
  if (part_name(out.stem, out.number, out.count) != file || out.number < 1 || out.number > out.count) return std::nullopt;
  return out;
}

struct SplitKeys {
  int64_t number = 0;  // from 0
  int64_t count = 1;
  std::optional<int64_t> tensors;  // of all parts together
};

Result<SplitKeys> read_split_keys(const GgufMetadata& metadata, const fs::path& path) {
  SplitKeys keys;
  const auto read = [&](const char* key, int64_t& out) -> Status {
    const auto it = metadata.find(key);
    if (it == metadata.end()) return {};
    const auto value = it->second.integer();
    if (!value || *value < 0 || *value > (int64_t{1} << 31))
      return bad_input(fmt::format("{}: {} is not a count", path.string(), key));
    out = *value;
    return {};
  };
  ZU_TRY(read("split.no", keys.number));
  ZU_TRY(read("split.count", keys.count));
  if (keys.count == 0) keys.count = 1;  // written so for files that are not split
  if (keys.number >= keys.count)
    return bad_input(fmt::format("{}: split.no {} is not below split.count {}", path.string(), keys.number, keys.count));
  int64_t tensors = -1;
  ZU_TRY(read("split.tensors.count", tensors));
  if (tensors >= 0) keys.tensors = tensors;
  return keys;
}

// The paths of all parts, given the content of one.
Result<std::vector<fs::path>> part_paths(const fs::path& path, const SplitKeys& keys) {
  if (keys.count == 1) return std::vector<fs::path>{path};
  const auto name = parse_part_name(path.filename().string());
  if (!name || name->count != keys.count)
    return bad_input(
        fmt::format("{}: is part {} of {}, so its name must end in -{:05}-of-{:05}.gguf, with the other parts beside it",
                    path.string(), keys.number + 1, keys.count, keys.number + 1, keys.count));
  std::vector<fs::path> out;
  for (int64_t i = 1; i <= keys.count; ++i) {
    out.push_back(path.parent_path() / part_name(name->stem, i, name->count));
    std::error_code ec;
    if (!fs::exists(out.back(), ec))
      return bad_input(fmt::format("{}: part {} of {} is missing", out.back().string(), i, keys.count));
  }
  return out;
}

Status check_part(const GgufContent& content, const fs::path& path, int64_t number, int64_t count) {
  ZU_TRY_ASSIGN(const SplitKeys keys, read_split_keys(content.metadata, path));
  if (keys.number != number || keys.count != count)
    return bad_input(fmt::format("{}: says that it is part {} of {}, but its name and the other parts say {} of {}",
                                 path.string(), keys.number + 1, keys.count, number + 1, count));
  return {};
}

}  // namespace

Result<GgufModel> GgufModel::open(const fs::path& path) {
  SplitKeys keys;
  {
    ZU_TRY_ASSIGN(const MappedFile file, MappedFile::open(path));
    ZU_TRY_ASSIGN(const GgufContent content, parse_gguf(file.bytes(), path.string()));
    ZU_TRY_ASSIGN(keys, read_split_keys(content.metadata, path));
  }
  ZU_TRY_ASSIGN(const std::vector<fs::path> paths, part_paths(path, keys));
  GgufModel out;
  for (const fs::path& part : paths) {
    ZU_TRY_ASSIGN(MappedFile file, MappedFile::open(part));
    ZU_TRY_ASSIGN(GgufContent content, parse_gguf(file.bytes(), part.string()));
    ZU_TRY(check_part(content, part, static_cast<int64_t>(out.parts_.size()), keys.count));
    for (const GgufTensor& t : content.tensors) {
      if (!out.by_name_.emplace(t.name, out.tensors_.size()).second)
        return bad_input(fmt::format("{}: tensor {} stands in another part too", part.string(), in_quotes(t.name)));
      out.tensors_.push_back(t);
    }
    out.files_.push_back(std::move(file));
    out.parts_.push_back(std::move(content));
  }
  if (keys.count > 1 && keys.tensors && *keys.tensors != static_cast<int64_t>(out.tensors_.size()))
    return bad_input(fmt::format("{}: the parts hold {} tensors together, but split.tensors.count is {}", path.string(),
                                 out.tensors_.size(), *keys.tensors));
  return out;
}

const GgufTensor* GgufModel::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

const GgufValue* GgufModel::value(std::string_view key) const {
  const auto it = metadata().find(key);
  return it == metadata().end() ? nullptr : &it->second;
}

uint64_t GgufModel::file_bytes() const {
  uint64_t total = 0;
  for (const MappedFile& file : files_) total += file.bytes().size();
  return total;
}

}  // namespace zeroulp::io
