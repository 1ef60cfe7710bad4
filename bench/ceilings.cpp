// bench_ceilings BYTES THREADS...: what this machine can do at most, as one JSON object: reading an array of that many bytes with so many
// threads, and multiply-adds of one thread from registers.
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "peaks.h"

int main(int argc, char** argv) {
  using namespace zeroulp::bench;
  const int64_t bytes = argc > 1 ? std::atoll(argv[1]) : 0;
  if (argc < 3 || bytes < 1 << 20) {
    fmt::print(stderr, "usage: bench_ceilings BYTES THREADS..., at least 1048576 bytes\n");
    return 2;
  }
  const std::vector<int8_t> array(static_cast<size_t>(bytes), 1);
  std::string reads;
  for (int i = 2; i < argc; ++i)
    reads += fmt::format("{}\"{}\": {:.2f}", reads.empty() ? "" : ", ", argv[i], 1e-9 * read_bandwidth(array, std::atoi(argv[i])));
  fmt::print("{{\"read_bytes\": {}, \"read_gb_s\": {{{}}}, \"tdpbssd_gmac_s\": {:.0f}, \"vpdpbusd_gmac_s\": {:.0f}, \"vpmaddwd_gmac_s\": {:.0f}}}\n", bytes,
             reads, peak_amx_gmacs(), peak_vnni_gmacs(), peak_maddwd_gmacs());
}
