#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace zeroulp {
namespace fs = std::filesystem;
namespace {

Error system_error(std::string_view what, const fs::path& path, int code) {
  return bad_input(fmt::format("{}: {}: {}", path.string(), what, std::strerror(code)));
}

// Opens a regular file and gives its size.
Result<int> open_regular(const fs::path& path, uint64_t& size) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error("cannot open", path, errno);
  struct stat st {};
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    ::close(fd);
    return bad_input(fmt::format("{}: not a regular file", path.string()));
  }
  size = static_cast<uint64_t>(st.st_size);
  return fd;
}

Status sync_path(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error("cannot open to sync", path, errno);
  const int rc = ::fsync(fd);
  const int code = errno;
  ::close(fd);
  if (rc != 0) return system_error("cannot sync", path, code);
  return {};
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// ".NAME.tmp-PROCESS", then ".NAME.tmp-PROCESS-1" and so on: several of one target in one process.
fs::path temporary_name(const fs::path& path, int attempt) {
  return parent_of(path) / (attempt == 0 ? fmt::format(".{}.tmp-{}", path.filename().string(), ::getpid())
                                         : fmt::format(".{}.tmp-{}-{}", path.filename().string(), ::getpid(), attempt));
}

bool is_temporary_of(std::string_view name, const fs::path& path) {
  const std::string begin = fmt::format(".{}.tmp-", path.filename().string());
  if (name.size() <= begin.size() || name.substr(0, begin.size()) != begin) return false;
  return name.substr(begin.size()).find_first_not_of("0123456789-") == name.npos;
}

// Whoever writes under a temporary name holds a lock on it, which ends with its process however that ends.
bool try_lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

// Removes what programs that are no more left under temporary names of `path`. Where locks cannot be had, leftovers stay: their writers may live.
void sweep_leftovers(const fs::path& path) {
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(parent_of(path), ec)) {
    if (!is_temporary_of(entry.path().filename().string(), path)) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) continue;
    if (try_lock(fd)) fs::remove_all(entry.path(), ec);
    ::close(fd);
  }
}

// Makes something under a temporary name of `path` with make(name), which gives an open descriptor of what was not there before, or -1 with errno.
// The descriptor is locked. -1: errno tells why nothing could be made.
template <class Make>
int make_temporary(const fs::path& path, const Make& make, fs::path& temporary) {
  sweep_leftovers(path);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    temporary = temporary_name(path, attempt);
    const int fd = make(temporary);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return -1;
    // A sweep that came between making and locking has it, or has removed it; without locks there are no sweeps.
    const bool locked = try_lock(fd) || errno != EWOULDBLOCK;
    struct stat st {};
    if (locked && ::fstat(fd, &st) == 0 && st.st_nlink > 0) return fd;
    ::close(fd);
  }
  errno = EEXIST;
  return -1;
}

Status refuse_existing(const fs::path& path, bool force) {
  std::error_code ec;
  if (!force && fs::exists(fs::symlink_status(path, ec)))
    return bad_input(fmt::format("{}: exists already; give another name, or --force to replace it", path.string()));
  return {};
}

// Why a file or folder cannot be made at `path`, without the temporary name that it would have had.
Error cannot_create(const fs::path& path, const std::string& why) {
  std::error_code ec;
  const fs::path parent = parent_of(path);
  if (!fs::is_directory(parent, ec)) return bad_input(fmt::format("{}: cannot be made: there is no folder {}", path.string(), parent.string()));
  return bad_input(fmt::format("{}: cannot be made in {}: {}", path.string(), parent.string(), why));
}

Status refuse_nameless(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.empty() || name == "." || name == "..") return bad_input(fmt::format("'{}' is not the name of something that can be made", path.string()));
  return {};
}

// The same place without links and ".." on the way, so that a rename of one part of the name does not break another.
fs::path resolved(const fs::path& path) {
  std::error_code ec;
  const fs::path parent = fs::weakly_canonical(fs::absolute(parent_of(path), ec), ec);
  return ec ? path : parent / path.filename();
}

Status refuse_irreplaceable(const fs::path& path) {
  std::error_code ec;
  const fs::file_status status = fs::symlink_status(path, ec);
  if (!fs::exists(status)) return {};
  if (!fs::is_directory(status))
    return bad_input(fmt::format("{}: exists and is not a folder, so it is not replaced; give another name", path.string()));
  bool ours = true, folders = false;
  for (const auto& entry : fs::directory_iterator(path, ec)) {
    folders |= entry.is_directory(ec);
    ours = false;
  }
  ours |= fs::exists(path / "config.json", ec) || fs::exists(path / "zeroulp.json", ec);
  if (ours && !folders) return {};
  return bad_input(fmt::format("{}: {}, so --force does not replace it; remove it yourself, or give another name", path.string(),
                               folders ? "there are folders in it" : "no model is in it"));
}

fs::path without_trailing_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

// For file systems that cannot exchange two names. The old folder ends under the new one's temporary name.
Status replace_in_two_steps(const fs::path& temporary, const fs::path& path) {
  const fs::path old = temporary.string() + "-old";
  if (::rename(path.c_str(), old.c_str()) != 0) return system_error("cannot be replaced", path, errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int code = errno;
    if (::rename(old.c_str(), path.c_str()) != 0)
      return bad_input(fmt::format("{}: cannot put in place: {}; what was there is in {} now", path.string(), std::strerror(code), old.string()));
    return system_error("cannot put in place", path, code);
  }
  if (::rename(old.c_str(), temporary.c_str()) != 0) return system_error("cannot be removed", old, errno);
  return {};
}

}  // namespace

Result<MappedFile> MappedFile::open(const fs::path& path) {
  uint64_t size = 0;
  ZU_TRY_ASSIGN(const int fd, open_regular(path, size));
  MappedFile file;
  file.path_ = path;
  file.size_ = size;
  if (size > 0) {
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    const int code = errno;
    ::close(fd);
    if (data == MAP_FAILED) return system_error("cannot map", path, code);
    file.data_ = static_cast<const std::byte*>(data);
  } else {
    ::close(fd);
  }
  return file;
}

Result<MappedFile> MappedFile::filled(const fs::path& path, size_t size, const std::function<Status(std::span<std::byte>)>& fill) {
  MappedFile file;
  file.path_ = path;
  if (size == 0) {
    ZU_TRY(fill({}));
    return file;
  }
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return unavailable(fmt::format("{}: needs {} bytes of memory, which are not there", path.string(), size));
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  ZU_TRY(fill({static_cast<std::byte*>(data), size}));
  if (::mprotect(data, size, PROT_READ) != 0) return system_error("cannot protect the memory of", path, errno);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_text_file(const fs::path& path, uint64_t limit) {
  uint64_t size = 0;
  ZU_TRY_ASSIGN(const int fd, open_regular(path, size));
  if (size > limit) {
    ::close(fd);
    return bad_input(fmt::format("{}: {} bytes, more than the limit of {} for this kind of file", path.string(), size, limit));
  }
  std::string text(size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int code = n < 0 ? errno : EIO;
      ::close(fd);
      return system_error("cannot read", path, code);
    }
    done += static_cast<size_t>(n);
  }
  ::close(fd);
  return text;
}

Result<AtomicFile> AtomicFile::create(const fs::path& path, bool force) {
  ZU_TRY(refuse_nameless(path));
  ZU_TRY(refuse_existing(path, force));
  // A rename would replace a device, a pipe or a link by a file.
  std::error_code ec;
  const fs::file_status status = fs::symlink_status(path, ec);
  if (fs::exists(status) && !fs::is_regular_file(status))
    return bad_input(fmt::format("{}: exists and is not a regular file, so it is not replaced; give another name", path.string()));
  AtomicFile file;
  file.path_ = path;
  file.fd_ = make_temporary(path, [](const fs::path& name) { return ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); }, file.temporary_);
  if (file.fd_ < 0) return cannot_create(path, std::strerror(errno));
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)), fd_(other.fd_) {
  other.fd_ = -1;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::rewrite(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status AtomicFile::write(std::string_view text) { return write(std::as_bytes(std::span(text.data(), text.size()))); }

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0) return system_error("cannot sync", path_, errno);
  const int lock = ::dup(fd_);  // the lock ends with the last descriptor: not before the rename
  const int rc = ::close(fd_);
  fd_ = -1;
  const bool placed = rc == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0;
  const int code = errno;
  if (!placed) ::unlink(temporary_.c_str());
  if (lock >= 0) ::close(lock);
  if (!placed) return system_error("cannot put in place", path_, code);
  return sync_path(parent_of(path_));
}

Result<AtomicFolder> AtomicFolder::create(const fs::path& given, bool force) {
  const fs::path path = without_trailing_slash(given);
  ZU_TRY(refuse_nameless(path));
  ZU_TRY(refuse_existing(path, force));
  ZU_TRY(refuse_irreplaceable(path));
  AtomicFolder folder;
  folder.path_ = resolved(path);
  std::error_code ec;
  fs::create_directories(parent_of(folder.path_), ec);
  if (ec) return cannot_create(path, ec.message());
  const auto make = [](const fs::path& name) { return ::mkdir(name.c_str(), 0777) == 0 ? ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1; };
  folder.lock_ = make_temporary(folder.path_, make, folder.temporary_);
  if (folder.lock_ < 0) {
    folder.temporary_.clear();
    return cannot_create(path, std::strerror(errno));
  }
  return folder;
}

Status check_file_creatable(const fs::path& path, bool force) {
  ZU_TRY(AtomicFile::create(path, force));
  return {};
}

// AtomicFolder makes missing parents, so the nearest one that exists decides.
Status check_folder_creatable(const fs::path& given, bool force) {
  const fs::path path = without_trailing_slash(given);
  ZU_TRY(refuse_nameless(path));
  ZU_TRY(refuse_existing(path, force));
  ZU_TRY(refuse_irreplaceable(path));
  std::error_code ec;
  fs::path parent = parent_of(resolved(path));
  while (!fs::exists(parent, ec) && parent != parent_of(parent)) parent = parent_of(parent);
  if (!fs::is_directory(parent, ec)) return bad_input(fmt::format("{}: cannot be made: {} is not a folder", path.string(), parent.string()));
  if (::access(parent.c_str(), W_OK | X_OK) != 0) return cannot_create(path, std::strerror(errno));
  return {};
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)), lock_(other.lock_) {
  other.temporary_.clear();
  other.lock_ = -1;
}

AtomicFolder::~AtomicFolder() {
  std::error_code ec;
  if (!temporary_.empty()) fs::remove_all(temporary_, ec);
  if (lock_ >= 0) ::close(lock_);
}

Status AtomicFolder::commit() {
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) ZU_TRY(sync_path(entry.path()));
  ZU_TRY(sync_path(temporary_));
  // Old and new change places in one step, so that nothing that ends the program leaves the name empty.
  std::error_code ec;
  const bool replaces = fs::exists(path_, ec);
  if (replaces ? ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0
               : ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    if (!replaces || (code != EINVAL && code != ENOSYS)) return system_error("cannot put in place", path_, code);
    ZU_TRY(replace_in_two_steps(temporary_, path_));
  }
  if (replaces) fs::remove_all(temporary_, ec);
  temporary_.clear();
  return sync_path(parent_of(path_));
}

}  // namespace zeroulp
