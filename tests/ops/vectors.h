// Golden vectors: inputs and outputs of every op in JSON, for replays here and for implementations elsewhere. The format is described in
// tests/golden/vectors/README.md.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zeroulp::ops::vectors {

using Json = nlohmann::ordered_json;

struct Runner {
  std::string name;
  std::function<Json(const Json& input)> run;
};

// One op as the vectors see it: the reference first, then the variants that can run here; and the standing mutants.
struct Op {
  std::string name;
  std::vector<Runner> variants, mutants;
  std::function<std::vector<Json>()> inputs;  // {"name", "input"}: what make_vectors starts from
};
std::vector<Op> all_ops();

}  // namespace zeroulp::ops::vectors
