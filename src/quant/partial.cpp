#include "quant/partial.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/json.h"

namespace zeroulp::quant {
namespace fs = std::filesystem;
namespace {

constexpr const char* kKeyFile = "key.json";

fs::path partial_name(const fs::path& given) {
  const fs::path path = given.has_filename() ? given : given.parent_path();
  return path.parent_path() / ("." + path.filename().string() + ".partial");
}

Status check_key(const fs::path& folder, const std::string& key) {
  ZU_TRY_ASSIGN(const io::Json json, io::read_json_file(folder / kKeyFile));
  if (json.is_object() && json.value("key", io::Json()) == key) return {};
  return bad_input(fmt::format("{}: belongs to a conversion with other inputs or options; add --force to discard it, or remove it",
                               folder.string()));
}

}  // namespace

Result<PartialFolder> PartialFolder::open(const fs::path& out, const std::string& key, bool resume, bool force) {
  PartialFolder p;
  p.folder_ = partial_name(out);
  std::error_code ec;
  if (fs::exists(p.folder_ / kKeyFile, ec)) {
    const Status same = check_key(p.folder_, key);
    if (resume && same) {
      for (const auto& entry : fs::directory_iterator(p.folder_, ec)) p.parts_found_ += entry.path().extension() == ".safetensors";
      return p;
    }
    if (!force && resume) return same.error();
    if (!force)
      return bad_input(fmt::format("{}: an interrupted conversion left this; add --resume to go on, or --force to start anew",
                                   p.folder_.string()));
  }
  fs::remove_all(p.folder_, ec);
  fs::create_directories(p.folder_, ec);
  if (ec) return bad_input(fmt::format("{}: cannot be made: the unfinished conversion is kept beside it, in {}: {}", out.string(), p.folder_.string(), ec.message()));
  ZU_TRY_ASSIGN(AtomicFile file, AtomicFile::create(p.folder_ / kKeyFile, false));
  ZU_TRY(file.write(io::Json{{"key", key}}.dump() + "\n"));
  ZU_TRY(file.commit());
  return p;
}

bool PartialFolder::left_by(const fs::path& out) {
  std::error_code ec;
  return fs::exists(partial_name(out) / kKeyFile, ec);
}

bool PartialFolder::has(const std::string& part) const {
  std::error_code ec;
  return fs::exists(file_of(part), ec);
}

Status PartialFolder::save(const std::string& part, const model::TensorMap& tensors) const {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, t] : tensors) specs.push_back({name, t.dtype, t.shape});
  io::sort_for_alignment(specs);
  ZU_TRY_ASSIGN(auto writer, io::SafetensorsWriter::create(file_of(part), specs, {}, true));
  for (const io::TensorSpec& spec : specs) ZU_TRY(writer.write(spec.name, tensors.find(spec.name)->second.bytes));
  return writer.commit();
}

Result<model::TensorMap> PartialFolder::load(const std::string& part) {
  ZU_TRY_ASSIGN(io::SafetensorsFile file, io::SafetensorsFile::open(file_of(part)));
  auto& place = open_[part];
  place = std::make_unique<io::SafetensorsFile>(std::move(file));
  model::TensorMap out;
  for (const io::TensorInfo& info : place->tensors()) out[info.name] = {info.dtype, info.shape, place->data(info), {}};
  return out;
}

Status PartialFolder::erase(const std::string& part) {
  open_.erase(part);
  std::error_code ec;
  fs::remove(file_of(part), ec);
  if (ec) return bad_input(fmt::format("{}: cannot remove: {}", file_of(part).string(), ec.message()));
  return {};
}

void PartialFolder::remove_all() const {
  std::error_code ec;
  fs::remove_all(folder_, ec);
}

}  // namespace zeroulp::quant
