// ZU_CHECK: an internal invariant. Stays on in every build; prints where and what, then exits with code 5 through abort handling in main.
#pragma once

namespace zeroulp {
[[noreturn]] void check_failed(const char* file, int line, const char* what);
}

#define ZU_CHECK(condition)                                              \
  do {                                                                   \
    if (!(condition)) ::zeroulp::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)
