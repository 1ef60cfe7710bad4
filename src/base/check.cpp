#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace zeroulp {

void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "zeroulp: internal error: %s:%d: %s does not hold; please report this\n", file, line, what);
  std::fflush(stderr);
  std::_Exit(5);
}

}  // namespace zeroulp
