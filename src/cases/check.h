// Holds a kernel's answers against the contract: expected outputs are computed here from the inputs, by the op's reference, and nothing that
// passed through the kernel's hands is taken on trust.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cases/stream.h"

namespace zeroulp::cases {

// The first element that is wrong, and what it breaks.
struct Wrong {
  int64_t case_index = 0;
  Kind kind = Kind::kHard;
  std::string case_name, catches;
  std::string output;
  std::vector<int64_t> at;  // index in the output's shape
  std::string want, got;    // "0.5 (0x3f00)"
  std::string rule;         // section and text
  // For naming the fault class: the outputs of this case, all of them.
  Case in;
  Outputs wanted, given;
};

struct CheckResult {
  StreamHeader header;
  int64_t cases = 0, declined = 0;  // answered and compared; not done by the kernel
  int64_t elements = 0, wrong = 0, wrong_cases = 0;
  std::optional<Wrong> first;
};

// Compares outputs of one case with what the contract asks for. Types and shapes must be right: anything else is an error, not a finding.
Status compare_case(const Form& form, const Bound& c, Outputs given, CheckResult& result);

// A case and its answer, from wherever they come.
struct Pair {
  Case given;
  std::string payload;  // the case as a stream has it
  Answer answer;
};
class PairSource {
 public:
  virtual ~PairSource() = default;
  virtual const StreamHeader& header() const = 0;
  virtual const std::string& name() const = 0;
  // Nothing: the source has ended, and ended well.
  virtual Result<std::optional<Pair>> next() = 0;
};

// Cases that the ops' lists hold are made again and must come back unchanged, every one of them; captured inputs are taken as they come.
Result<CheckResult> check_pairs(PairSource& source);
Result<CheckResult> check_stream(ReadFn read, const std::string& name);

// Answers every case of a stream with a runner of its own: a kernel that is right, for pipes that are to be tried.
Status answer_stream(ReadFn read, const std::string& name, const std::function<Result<Outputs>(const Form& form, const Bound& c)>& kernel,
                     const std::function<Status(std::string_view)>& write);

// Calls sink for each case that the header asks for; of kinds from the ops' lists.
void each_wanted(const Form& form, const StreamHeader& header, const Sink& sink);

}  // namespace zeroulp::cases
