// Writes src/verify/signature_table.inc: make_signatures FILE. With no argument it prints how good the compiled table is. Run it when faults are added
// or features change, build again, and put the new figures into tests/verify/signature_test.cpp and docs/faults.md.
#include <fmt/format.h>

#include <fstream>
#include <map>

#include "verify/faults/learn.h"

int main(int argc, char** argv) {
  using namespace zeroulp::verify;
  if (argc > 1) {
    const auto samples = training_samples(2);
    if (!samples) return fmt::print(stderr, "{}\n", samples.error().text), 1;
    std::ofstream(argv[1]) << signature_table(*samples);
    fmt::print("{} samples\n", samples->size());
    return 0;
  }
  const auto samples = held_out_samples(2);
  if (!samples) return fmt::print(stderr, "{}\n", samples.error().text), 1;
  for (const Accuracy& a : accuracy_of(*samples)) fmt::print("{}: {} of {}\n", a.seen_at, a.right, a.judged);
  std::map<std::string, std::map<std::string, int>> wrong;
  for (const Sample& s : *samples) {
    const Likely likely = likely_fault(s.seen_at, s.features);
    if (likely.fault_class != s.fault->fault_class) ++wrong[fmt::format("{}, {}", s.seen_at, s.fault->name)][fmt::format("{} ({})", class_name(likely.fault_class), likely.fault)];
  }
  for (const auto& [fault, taken] : wrong)
    for (const auto& [as, n] : taken) fmt::print("  {} taken for {}: {} times\n", fault, as, n);
  return 0;
}
