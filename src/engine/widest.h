// Runs a loop compiled for the widest instructions that this processor has. The loop is written once, in plain C++; because products
// and sums are never contracted or reordered, and std::fma is one operation everywhere, its bits are the same at every width.
#pragma once

#include <string_view>

#include "base/cpu.h"
#include "ops/op.h"

#define ZU_INLINE __attribute__((always_inline))

namespace zeroulp::engine {

enum class Width { kPlain, kAvx2, kAvx512 };

inline Width widest() {
  const CpuFeatures& cpu = cpu_features();
  return cpu.avx512_vnni ? Width::kAvx512 : cpu.avx2 ? Width::kAvx2 : Width::kPlain;
}

namespace detail {
template <class Body>
__attribute__((flatten)) void run_plain(const Body& body) {
  body();
}
#if defined(__x86_64__)
template <class Body>
ZU_TARGET_AVX2 __attribute__((flatten)) void run_avx2(const Body& body) {
  body();
}
template <class Body>
ZU_TARGET_AVX512 __attribute__((flatten)) void run_avx512(const Body& body) {
  body();
}
#endif
}  // namespace detail

// `body`: a lambda written as [&]() ZU_INLINE { ... }.
template <class Body>
void run_widest(const Body& body) {
#if defined(__x86_64__)
  switch (widest()) {
    case Width::kAvx512: return detail::run_avx512(body);
    case Width::kAvx2: return detail::run_avx2(body);
    case Width::kPlain: break;
  }
#endif
  detail::run_plain(body);
}

}  // namespace zeroulp::engine
