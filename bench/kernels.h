// The parts of bench_kernels. Each measures the shapes whose name holds `filter` and returns the exit code.
#pragma once

#include <string_view>

namespace zeroulp::bench {
int run_linear(std::string_view filter);
int run_attention(std::string_view filter);
}  // namespace zeroulp::bench
