#include "codec/kernels.h"

#include <fmt/format.h>

namespace zeroulp::codec {

std::string why_unavailable(Needs needs, const CpuFeatures& cpu) {
  switch (needs) {
    case Needs::kNothing: return "";
    case Needs::kAvx2: return cpu.avx2 ? "" : "this processor lacks AVX2 with BMI2";
    case Needs::kAvx512Vbmi: return cpu.avx512_vbmi ? "" : "this processor lacks AVX-512 with VBMI2";
  }
  return "unknown need";
}

std::span<const Kernels* const> kernel_table() {
#if defined(__x86_64__)
  static constexpr const Kernels* table[] = {&kReference, &kAvx2, &kAvx512};
#else
  static constexpr const Kernels* table[] = {&kReference};
#endif
  return table;
}

Result<const Kernels*> select_kernels(std::string_view wanted, const CpuFeatures& cpu) {
  const Kernels* best = nullptr;
  for (const Kernels* k : kernel_table()) {
    const std::string why = why_unavailable(k->needs, cpu);
    if (wanted.empty() ? why.empty() : k->name == wanted) best = k;
    if (k->name == wanted && !why.empty()) return unavailable(fmt::format("codec: kernel '{}' cannot run here: {}", wanted, why));
  }
  if (best == nullptr) return usage_error(fmt::format("codec: there is no kernel called '{}'", wanted));
  return best;
}

}  // namespace zeroulp::codec
