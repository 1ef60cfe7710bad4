// The real models and texts that ./dev models puts under models/ (or where ZEROULP_MODELS says). Tests that need them are skipped, visibly,
// where they are not.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "source_dir.h"

namespace zeroulp {

inline std::filesystem::path models_folder() {
  const char* given = std::getenv("ZEROULP_MODELS");
  return given != nullptr && *given != '\0' ? std::filesystem::path(given) : std::filesystem::path(source_dir()) / "models";
}

}  // namespace zeroulp
