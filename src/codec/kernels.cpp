#include "codec/kernels.h"

#include <fmt/format.h>

namespace zeroulp::codec {

std::span<const Kernels* const> kernel_table() {
  static constexpr const Kernels* table[] = {&kReference};
  return table;
}

Result<const Kernels*> select_kernels(std::string_view wanted, const CpuFeatures& cpu) {
  const Kernels* best = nullptr;
  for (const Kernels* k : kernel_table()) {
    const std::string why = ops::why_unavailable(k->needs, cpu);
    if (wanted.empty() ? why.empty() : k->name == wanted) best = k;
    if (k->name == wanted && !why.empty()) return unavailable(fmt::format("codec: kernel '{}' cannot run here: {}", wanted, why));
  }
  if (best == nullptr) return usage_error(fmt::format("codec: there is no kernel called '{}'", wanted));
  return best;
}

}  // namespace zeroulp::codec
