// bench_kernels [TEXT]: speed of the kernels whose shape's name holds TEXT, on one thread, beside ceilings measured in the same run.
// Every answer is compared with the reference before it is timed.
#include "kernels.h"

int main(int argc, char** argv) {
  const char* filter = argc > 1 ? argv[1] : "";
  const int rc = zeroulp::bench::run_linear(filter);
  return rc != 0 ? rc : zeroulp::bench::run_attention(filter);
}
