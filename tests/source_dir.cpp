#include "source_dir.h"

namespace zeroulp {

std::string source_dir() { return ZEROULP_SOURCE_DIR; }

}  // namespace zeroulp
