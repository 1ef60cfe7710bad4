// seeded_model SHAPE TOKENIZER OUT: a quantised model folder of a real model's exact shape with weights from a seed, for what needs a folder
// and no sense in what it says (verify at sizes whose weights are not at hand). TOKENIZER: a folder whose tokenizer is taken along; its
// vocabulary must not be larger than the shape's. The same arguments give the same identity on every machine.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "shapes.h"

namespace zeroulp {
namespace {

namespace fs = std::filesystem;

Status copy_tokenizer(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    if (std::string_view(name) != "tokenizer.json" && !fs::exists(from / name)) continue;
    fs::copy_file(from / name, to / name, failed);
    if (failed) return bad_input(fmt::format("{}: {}", (from / name).string(), failed.message()));
  }
  return {};
}

Result<int> run(int argc, char** argv) {
  const std::vector<bench::NamedShape> shapes = bench::all_shapes();
  std::string names;
  for (const bench::NamedShape& s : shapes) names += fmt::format("{}{}", names.empty() ? "" : ", ", s.name);
  if (argc != 4) return usage_error("seeded_model SHAPE TOKENIZER OUT; shapes: " + names);
  const auto found = std::find_if(shapes.begin(), shapes.end(), [&](const bench::NamedShape& s) { return std::string_view(s.name) == argv[1]; });
  if (found == shapes.end()) return usage_error(fmt::format("there is no shape '{}'; there are {}", argv[1], names));
  ZU_TRY_ASSIGN(AtomicFolder folder, AtomicFolder::create(argv[3], false));
  ZU_TRY(copy_tokenizer(argv[2], folder.temporary()));
  const model::QuantizedModel m = model::make_seeded(found->shape, 1);
  ZU_TRY(m.save(folder.temporary()));
  ZU_TRY(folder.commit());
  fmt::print("{}: {}\n", argv[3], m.identity());
  return 0;
}

}  // namespace
}  // namespace zeroulp

int main(int argc, char** argv) {
  const zeroulp::Result<int> code = zeroulp::run(argc, argv);
  if (code) return *code;
  fmt::print(stderr, "seeded_model: {}\n", code.error().text);
  return static_cast<int>(code.error().code);
}
