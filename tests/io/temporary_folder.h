// A folder of a test's own, removed at its end.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "base/scratch_folder.h"

namespace zeroulp {

class TemporaryFolder {
 public:
  TemporaryFolder() { EXPECT_TRUE(folder_.made()); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
};

}  // namespace zeroulp
