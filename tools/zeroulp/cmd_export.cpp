#include <fmt/format.h>

#include "args.h"
#include "model/compressed_export.h"
#include "report/json.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

struct Options {
  std::string model, out, format = "compressed-tensors";
  bool force = false, json = false;
};

Status run(const Options& o) {
  report::Report report("export");
  ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o.model));
  ZU_TRY_ASSIGN(const model::CompressedExport made, model::export_compressed(model, o.model, o.out, o.force));
  if (o.json) {
    report.body["model"] = o.model;
    report.body["out"] = o.out;
    report.body["identity"] = model.identity();
    report.body["tensors"] = made.tensors;
    report.body["bytes"] = made.bytes;
    report.body["notes"] = made.notes;
    return report.write("-", false);
  }
  tell(fmt::format("{}: {}, {} tensors, {:.1f} MB", o.out, o.format, made.tensors, static_cast<double>(made.bytes) / 1e6));
  for (const std::string& note : made.notes) tell(fmt::format("  {}", note));
  return {};
}

}  // namespace

int cmd_export(int argc, char** argv) {
  Options o;
  Args args("export", "A quantised model of 8-bit activations as a checkpoint of the compressed-tensors package: the same codes and scales.",
            {"zeroulp export models/smollm2-w8a8-po2 models/smollm2-w8a8-ct"});
  args.positional("MODEL", o.model, "folder of a quantised model");
  args.output_folder("OUT", o.out, "folder to make");
  args.choice("--format", o.format, {"compressed-tensors"}, "W8A8, int-quantized: channel scales, dynamic token activations");
  args.force(o.force, "replace OUT if it exists");
  args.flag("--json", o.json, "the outcome as JSON (schema zeroulp.export/1)");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Status status = run(o);
  return status ? 0 : fail("export", status.error());
}

}  // namespace zeroulp::cli
