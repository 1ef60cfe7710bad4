#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace zeroulp {

void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "zeroulp: internal error: %s:%d: %s does not hold; please report this\n", file, line, what);
  std::fflush(stderr);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  std::abort();  // a fuzzer keeps the input that led here only if the process dies of a signal
#else
  std::_Exit(5);
#endif
}

}  // namespace zeroulp
