// Prints the digests of the tiny models, one line each: "family kernel digest". Built by other compilers, at other optimisation levels and
// for other processors by tests/cross/run.sh; every build must print what tests/golden/digests.txt holds.
#include <fmt/format.h>

#include "verify/tiny.h"

int main() {
  using namespace zeroulp;
  for (const std::string_view family : verify::kTinyFamilies) {
    const auto model = verify::tiny_model(family);
    if (!model) return 5;
    for (const ops::VariantStatus& v : ops::variant_status(cpu_features())) {
      if (!v.why_not.empty()) continue;
      const auto log = verify::run_digests(*model, verify::tiny_workload(), {.kernel = v.name});
      if (!log) return 5;
      fmt::print("{} {} {}\n", family, v.name, log->combined().hex());
    }
  }
  return 0;
}
