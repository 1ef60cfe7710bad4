#include "quant/partial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "num/digest.h"

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

constexpr const char* kDigest = "xxh3";
constexpr const char* kAnew = "add --force instead of --resume to start anew";

// Over names and bytes, in the order of names.
std::string digest_of(const model::TensorMap& tensors) {
  std::vector<num::Digest> all;
  for (const auto& [name, t] : tensors) {
    all.push_back(num::xxh3_128(std::as_bytes(std::span(name.data(), name.size()))));
    all.push_back(num::xxh3_128(t.bytes));
  }
  return num::digest_of(std::span<const num::Digest>(all)).hex();
}

// The folder, opened and locked; -1 when it was removed by another process meanwhile.
Result<int> lock_folder(const fs::path& folder, const fs::path& out) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec) return bad_input(fmt::format("{}: cannot be made: the unfinished conversion is kept beside it, in {}: {}", out.string(), folder.string(), ec.message()));
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? Result<int>(-1) : bad_input(fmt::format("{}: cannot open: {}", folder.string(), std::strerror(errno)));
  struct stat mine {}, there {};
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return bad_input(fmt::format("{}: another conversion is writing it at this moment; wait for it, or give another name", out.string()));
  }
  if (::fstat(fd, &mine) == 0 && ::stat(folder.c_str(), &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

PartialFolder::Lock::~Lock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<PartialFolder> PartialFolder::open(const fs::path& out, const std::string& key, bool resume, bool force) {
  PartialFolder p;
  p.folder_ = partial_name(out);
  for (int fd = -1; fd < 0;) {
    ZU_TRY_ASSIGN(fd, lock_folder(p.folder_, out));
    if (fd >= 0) p.lock_ = Lock(fd);
  }
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
  for (const auto& entry : fs::directory_iterator(p.folder_, ec)) fs::remove_all(entry.path(), ec);
  if (ec) return bad_input(fmt::format("{}: cannot be emptied: {}", p.folder_.string(), ec.message()));
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
  ZU_TRY_ASSIGN(auto writer, io::SafetensorsWriter::create(file_of(part), specs, {{kDigest, digest_of(tensors)}}, true));
  for (const io::TensorSpec& spec : specs) ZU_TRY(writer.write(spec.name, tensors.find(spec.name)->second.bytes));
  return writer.commit();
}

Result<model::TensorMap> PartialFolder::load(const std::string& part) {
  auto opened = io::SafetensorsFile::open(file_of(part));
  if (!opened) return bad_input(fmt::format("{}; {}", opened.error().text, kAnew));
  io::SafetensorsFile file = *std::move(opened);
  auto& place = open_[part];
  place = std::make_unique<io::SafetensorsFile>(std::move(file));
  model::TensorMap out;
  for (const io::TensorInfo& info : place->tensors()) out[info.name] = {info.dtype, info.shape, place->data(info), {}};
  const auto& metadata = place->metadata();
  const auto stored = metadata.find(kDigest);
  if (stored == metadata.end() || stored->second != digest_of(out))
    return bad_input(fmt::format("{}: is not what was written; {}", file_of(part).string(), kAnew));
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
