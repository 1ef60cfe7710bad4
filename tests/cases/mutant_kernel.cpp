// A kernel with a known fault, between `cases emit` and `cases check`: the first standing mutant of the stream's op.
#include <cstdio>

#include "cases/check.h"
#include "cases/runners.h"
#include "ops/mutants/mutants.h"
#include "ops/mutants_of_cases.h"

namespace {

using namespace zeroulp;

cases::Runner first_mutant(std::string_view op) {
  const CpuFeatures& cpu = cpu_features();
  namespace m = ops::mutants;
  const auto first = [&](auto table) { return cases::runners_of(table.first(1), cpu).front(); };
  if (op == "argmax") return first(m::of_argmax());
  if (op == "attention") return first(m::of_attention());
  if (op == "embedding") return first(m::of_embedding());
  if (op == "kv_cache") return first(m::of_kv_cache_rows());
  if (op == "linear_s8") return first(m::of_linear_s8());
  if (op == "nll") return first(m::of_nll());
  if (op == "quant_rows") return first(m::of_quant_rows());
  if (op == "residual") return first(m::of_residual());
  if (op == "rmsnorm") return first(m::of_rmsnorm());
  if (op == "rope") return first(m::of_rope());
  if (op == "sample") return first(m::of_draws());
  return first(m::of_silu_mul());
}

}  // namespace

int main() {
  const auto read = [](std::byte* to, size_t count) -> Result<size_t> { return std::fread(to, 1, count, stdin); };
  const auto write = [](std::string_view bytes) -> Status {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    return {};
  };
  const Status done = cases::answer_stream(read, "stdin", [](const cases::Form& form, const cases::Bound& c) -> Result<cases::Outputs> { return first_mutant(form.op).run(c); }, write);
  if (!done) std::fprintf(stderr, "%s\n", done.error().text.c_str());
  return done ? 0 : 3;
}
