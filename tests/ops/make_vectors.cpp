// Writes the golden files of tests/golden/vectors/ from the references: make_vectors FOLDER. Run it only when a new version of the
// contract moves bits, or to add vectors.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/fp_env.h"
#include "ops/conformance.h"
#include "ops/vectors.h"

namespace zeroulp::ops::vectors {
namespace {

bool has_fault(const Json& output) {
  if (output.contains("faults")) return output["faults"].dump().find('1') != std::string::npos;
  if (output.contains("fault")) return output["fault"] == 1;
  for (const char* key : {"index", "result", "token"})
    if (output.contains(key)) return output[key] == -1;
  for (const auto& [key, value] : output.items())
    if (value.is_string() && value.get_ref<const std::string&>().find("7fc0") != std::string::npos) return true;
  return false;
}

Json file_of(const Op& op) {
  Json file = {{"contract", "ZNC-1"}, {"op", op.name}, {"vectors", Json::array()}};
  for (const Json& made : op.inputs()) {
    Json v = {{"name", made["name"]}};
    const Json output = op.variants[0].run(made["input"]);
    v["fault"] = has_fault(output);
    v["catches"] = Json::array();
    for (const Runner& mutant : op.mutants)
      if (mutant.run(made["input"]) != output) v["catches"].push_back(mutant.name);
    v["input"] = made["input"];
    v["output"] = output;
    file["vectors"].push_back(std::move(v));
  }
  return file;
}

// One line per field, so that a change shows what it changes.
std::string text_of(const Json& file) {
  std::string text =
      fmt::format("{{\n \"contract\": {},\n \"op\": {},\n \"vectors\": [", file["contract"].dump(), file["op"].dump());
  for (size_t i = 0; i < file["vectors"].size(); ++i) {
    text += i == 0 ? "\n  {" : ",\n  {";
    bool first = true;
    for (const auto& [key, value] : file["vectors"][i].items()) {
      text += fmt::format("{}\n   \"{}\": {}", first ? "" : ",", key, value.dump());
      first = false;
    }
    text += "}";
  }
  return text + "\n ]\n}\n";
}

int make(const std::string& folder) {
  const FpEnvScope fp_env;
  for (const Op& op : all_ops()) {
    std::ofstream(folder + "/" + op.name + ".json") << text_of(file_of(op));
    fmt::print("{}\n", op.name);
  }
  Json digests = Json::object();
  for (const conformance::Outcome& o : conformance::run_all(CpuFeatures{}))
    if (o.variant == conformance::kReference) digests[o.op] = o.digest;
  std::ofstream(folder + "/digests.json") << digests.dump(1) << '\n';
  return 0;
}

}  // namespace
}  // namespace zeroulp::ops::vectors

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "make_vectors FOLDER\n");
    return 2;
  }
  return zeroulp::ops::vectors::make(argv[1]);
}
