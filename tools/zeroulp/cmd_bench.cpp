// Measurements that are worth a verb: each is a command of its own.
#include <fmt/format.h>

#include <string_view>

#include "args.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

struct Measurement {
  std::string_view name;
  int (*run)(int argc, char** argv);
  std::string_view summary;
};
constexpr Measurement kMeasurements[] = {
    {"codec", cmd_bench_codec, "speed and ratio of the lossless codec on this processor, beside a copy of the same bytes"},
    {"transfer", cmd_bench_transfer, "a cache from process to process, raw and coded: where the codec pays"},
};

}  // namespace

int cmd_bench(int argc, char** argv) {
  const std::string_view word = argc < 2 ? "" : argv[1];
  for (const Measurement& m : kMeasurements)
    if (m.name == word) return m.run(argc - 1, argv + 1);
  const bool help = word == "-h" || word == "--help";
  if (!help && !word.empty()) say(fmt::format("zeroulp bench: there is no measurement '{}'", word));
  std::string text = "Usage: zeroulp bench MEASUREMENT [options]; zeroulp bench MEASUREMENT --help\n\n";
  for (const Measurement& m : kMeasurements) text += fmt::format("  {:<10} {}\n", m.name, m.summary);
  fmt::print(help ? stdout : stderr, "{}", text);
  return help ? 0 : 2;
}

}  // namespace zeroulp::cli
