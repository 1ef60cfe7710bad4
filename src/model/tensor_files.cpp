#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "codec/packed.h"
#include "io/json.h"
#include "model/checkpoint.h"

namespace zeroulp::model {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
}

}  // namespace

Result<TensorFiles> TensorFiles::open(const fs::path& folder) {
  std::error_code ec;
  if (!fs::is_directory(folder, ec)) return bad_input(fmt::format("{}: is not a folder", folder.string()));
  const fs::path index_path = folder / kIndexName;
  if (!fs::exists(index_path, ec)) {
    if (fs::exists(folder / kSingleName, ec)) return open_file(folder / kSingleName);
    return bad_input(fmt::format("{}: holds neither {} nor {}; other weight formats are not read", folder.string(), kSingleName,
                                 kIndexName));
  }
  ZU_TRY_ASSIGN(const io::Json index,
                io::read_json_file(index_path, {.max_depth = 4, .max_bytes = io::kSafetensorsHeaderLimit}));
  TensorFiles out;
  ZU_TRY(out.open_shards(folder, index, index_path.string()));
  return out;
}

Result<TensorFiles> TensorFiles::open_file(const fs::path& path) {
  ZU_TRY_ASSIGN(io::SafetensorsFile file, codec::open_safetensors(path));
  TensorFiles out;
  out.files_.push_back(std::move(file));
  for (const io::TensorInfo& t : out.files_[0].tensors()) out.places_.emplace(t.name, Place{&out.files_[0], &t});
  return out;
}

Status TensorFiles::open_shards(const fs::path& folder, const io::Json& index, const std::string& index_name) {
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return bad_input(fmt::format("{}: weight_map is missing or not an object", index_name));
  const io::Json& map = index["weight_map"];
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map.items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get_ref<const std::string&>()))
      return bad_input(fmt::format("{}: weight_map: the shard of {} is not a plain file name", index_name, in_quotes(tensor)));
    shards.insert(shard.get<std::string>());
  }
  if (shards.empty()) return bad_input(fmt::format("{}: weight_map is empty", index_name));
  files_.reserve(shards.size());
  for (const std::string& shard : shards) {
    ZU_TRY_ASSIGN(io::SafetensorsFile file, codec::open_safetensors(folder / shard));
    files_.push_back(std::move(file));
  }
  for (const io::SafetensorsFile& file : files_) {
    for (const io::TensorInfo& t : file.tensors()) {
      const auto [place, is_new] = places_.emplace(t.name, Place{&file, &t});
      if (!is_new)
        return bad_input(fmt::format("{}: tensor {} stands in {} and in {}", folder.string(), in_quotes(t.name),
                                     place->second.file->path().filename().string(), file.path().filename().string()));
      if (!map.contains(t.name))
        return bad_input(
            fmt::format("{}: tensor {} is not in the index; write the index anew", file.path().string(), in_quotes(t.name)));
    }
  }
  for (const auto& [tensor, shard] : map.items()) {
    const auto place = places_.find(tensor);
    if (place == places_.end() || place->second.file->path().filename().string() != shard.get_ref<const std::string&>())
      return bad_input(fmt::format("{}: tensor {} is not in {}, where weight_map puts it", index_name, in_quotes(tensor),
                                   in_quotes(shard.get<std::string>())));
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() == ".safetensors" && !shards.contains(file))
      notes_.push_back(fmt::format("{}: ignored, the index does not name it", entry.path().string()));
  }
  return {};
}

std::optional<TensorFiles::Place> TensorFiles::find(std::string_view name) const {
  const auto it = places_.find(name);
  if (it == places_.end()) return std::nullopt;
  return it->second;
}

}  // namespace zeroulp::model
