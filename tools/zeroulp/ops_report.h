// What the conformance suite of the ops found, for a terminal and for JSON.
#pragma once

#include <span>
#include <vector>

#include "ops/conformance.h"
#include "report/json.h"
#include "report/table.h"

namespace zeroulp::cli {

report::Table conformance_table(const std::vector<ops::conformance::Outcome>& outcomes);
// A paragraph per variant that differs: the case, what it is there to catch, the first element. Empty when none differs.
std::string first_differences(const std::vector<ops::conformance::Outcome>& outcomes);
report::Json conformance_json(const std::vector<ops::conformance::Outcome>& outcomes);

// 0: equal; 1: a difference; 4: some op had no variant to compare with its reference. With one line of text for people.
struct ConformanceVerdict {
  ExitCode code;
  std::string text;
};
ConformanceVerdict conformance_verdict(const std::vector<ops::conformance::Outcome>& outcomes, std::span<const std::string> only);

}  // namespace zeroulp::cli
