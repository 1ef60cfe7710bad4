#include <fmt/format.h>

#include "args.h"
#include "attest.h"
#include "report/progress.h"
#include "verbs.h"
#include "verify/diff_report.h"

namespace zeroulp::cli {

int cmd_diff(int argc, char** argv) {
  Args args("diff", "What changed between two checkpoints, tensor files or digest logs, and where first.",
            {"zeroulp diff models/a models/b", "zeroulp diff a.safetensors b.safetensors --json",
             "zeroulp diff run-1.json run-2.json",
             "zeroulp diff all.json cached-prefix.json --common   # a run that took positions from a cache has no digests there"});
  std::string a, b, html, key_file;
  int64_t rows = 20;
  bool json = false, force = false, common = false;
  args.positional("A", a, "folder with safetensors, safetensors file, or digest log (.json, .zlog)");
  args.positional("B", b, "the same of the other side");
  args.option("--rows", rows, "differing tensors or sequences to list; 0: all", 0, 1000000);
  args.flag("--common", common, "digest logs: let the positions that both have decide, and say how many only one has");
  args.input("--key", key_file, "file with the secret that both run logs were sealed with");
  args.flag("--json", json, "print the report as JSON instead of tables");
  args.output("--html", html, "write the report as a page");
  args.force(force, "replace an existing page");
  args.excludes({"--rows"}, {"--json"});
  if (const int code = args.parse(argc, argv); code >= 0) return code;

  report::Report report("diff");
  const auto key = read_key(key_file);
  if (!key) return fail("diff", key.error());
  Result<verify::Diff> diff = [&] {
    report::Progress progress("diff", 0, "B");
    return verify::diff_paths(a, b, [&](uint64_t done, uint64_t) { progress.set(done); }, common, *key);
  }();
  if (!diff) return fail("diff", diff.error());
  for (const auto* notes : {&diff->checkpoints.notes, &diff->digests.notes})
    for (const std::string& note : *notes) say(fmt::format("zeroulp diff: {}", note));
  report.body["a"] = a;
  report.body["b"] = b;
  verify::add_diff(*diff, report.body);
  fmt::print("{}", json ? report::json_text(report.finished()) : verify::diff_text(*diff, rows));
  if (!html.empty()) {
    report::Page page = verify::diff_page(*diff, a, b);
    page.provenance(report.finished());
    if (const Status s = page.write(html, force); !s) return fail("diff", s.error());
  }
  if (diff->compared() == 0 && diff->equal()) return fail("diff", unavailable("there was nothing to compare"));
  return diff->equal() ? 0 : 1;
}

}  // namespace zeroulp::cli
