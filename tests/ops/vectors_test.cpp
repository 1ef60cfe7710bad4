// The committed vectors against every variant that runs here: the bits of the contract cannot move without a change of these files.
#include "ops/vectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fp_env.h"
#include "source_dir.h"

namespace zeroulp::ops::vectors {
namespace {

Json load(const std::string& op) {
  std::ifstream file(source_dir() + "/tests/golden/vectors/" + op + ".json");
  return Json::parse(file);
}

TEST(Vectors, EveryVariantGivesTheCommittedOutputs) {
  const FpEnvScope fp_env;
  for (const Op& op : all_ops()) {
    const Json file = load(op.name);
    EXPECT_EQ(file["contract"], "ZNC-1");
    ASSERT_FALSE(file["vectors"].empty()) << op.name;
    for (const Json& v : file["vectors"])
      for (const Runner& variant : op.variants)
        EXPECT_EQ(variant.run(v["input"]).dump(), v["output"].dump()) << op.name << ", " << variant.name << ": " << v["name"];
  }
}

TEST(Vectors, EachRejectsTheMutantsThatItNames) {
  const FpEnvScope fp_env;
  for (const Op& op : all_ops()) {
    std::set<std::string> named;
    const Json file = load(op.name);
    for (const Json& v : file["vectors"]) {
      for (const Runner& mutant : op.mutants) {
        const bool names_it = std::find(v["catches"].begin(), v["catches"].end(), mutant.name) != v["catches"].end();
        EXPECT_EQ(mutant.run(v["input"]) != v["output"], names_it) << op.name << ", " << mutant.name << ": " << v["name"];
        if (names_it) named.insert(mutant.name);
      }
    }
    for (const Runner& mutant : op.mutants)
      if (!named.contains(mutant.name))
        std::printf("[ large only ] %s: '%s' needs the conformance suite\n", op.name.c_str(), mutant.name.c_str());
    EXPECT_GE(3 * named.size(), 2 * op.mutants.size()) << op.name << ": too few faults are shown by small vectors";
  }
}

TEST(Vectors, FaultsAreMarked) {
  int marked = 0;
  for (const Op& op : all_ops()) {
    const Json file = load(op.name);
    for (const Json& v : file["vectors"]) marked += v["fault"].get<bool>();
  }
  EXPECT_GE(marked, 15);
}

}  // namespace
}  // namespace zeroulp::ops::vectors
