#include <fmt/format.h>

#include <thread>

#include "args.h"
#include "base/cpu.h"
#include "verbs.h"

namespace zeroulp::cli {

int cmd_doctor(int argc, char** argv) {
  Args args("doctor", "What can run on this machine, and why the rest cannot.", {"zeroulp doctor"});
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const CpuFeatures& cpu = cpu_features();
  fmt::print("cpu      {}, {} hardware threads\n", cpu.model, std::thread::hardware_concurrency());
  return 0;
}

}  // namespace zeroulp::cli
