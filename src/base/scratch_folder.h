// A folder of one's own among the system's temporary files, removed at the end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace zeroulp {

class ScratchFolder {
 public:
  // The name is of mkdtemp's making: it wants six X at the end.
  ScratchFolder() {
    std::error_code ec;
    std::string name = (std::filesystem::temp_directory_path(ec) / ("zeroulp-" + std::string(6, 'X'))).string();
    if (!ec && ::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ec;
    if (made()) std::filesystem::remove_all(path_, ec);
  }

  bool made() const { return !path_.empty(); }
  const std::filesystem::path& path() const { return path_; }  // empty when it could not be made

 private:
  std::filesystem::path path_;
};

}  // namespace zeroulp
