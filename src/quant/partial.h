// What a conversion has finished so far, in a folder beside its output, so that an interrupted one can go on.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "io/safetensors.h"
#include "model/quantized_model.h"

namespace zeroulp::quant {

// ".NAME.partial" beside the output NAME: key.json says which inputs and options it belongs to; one safetensors file per finished part,
// each of them there whole or not at all, and with a digest of its tensors in its header.
class PartialFolder {
 public:
  // With `resume` a folder of the same key is taken over; one of another key is refused. Without it a folder that exists is refused,
  // or with `force` emptied. One that another process works in is refused: only one may write to `out`.
  static Result<PartialFolder> open(const std::filesystem::path& out, const std::string& key, bool resume, bool force);

  // Whether an interrupted conversion to `out` has left one.
  static bool left_by(const std::filesystem::path& out);

  bool has(const std::string& part) const;
  Status save(const std::string& part, const model::TensorMap& tensors) const;
  // Mapped; valid as long as this object.
  Result<model::TensorMap> load(const std::string& part);
  Status erase(const std::string& part);
  // Removes the folder. Tensors that were loaded stay readable.
  void remove_all() const;
  int64_t parts_found() const { return parts_found_; }

 private:
  std::filesystem::path file_of(const std::string& part) const { return folder_ / (part + ".safetensors"); }

  // Held open and locked as long as this object lives.
  class Lock {
   public:
    Lock() = default;
    explicit Lock(int fd) : fd_(fd) {}
    Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Lock& operator=(Lock&& other) noexcept {
      std::swap(fd_, other.fd_);
      return *this;
    }
    ~Lock();

   private:
    int fd_ = -1;
  };

  std::filesystem::path folder_;
  Lock lock_;
  std::map<std::string, std::unique_ptr<io::SafetensorsFile>> open_;
  int64_t parts_found_ = 0;
};

}  // namespace zeroulp::quant
