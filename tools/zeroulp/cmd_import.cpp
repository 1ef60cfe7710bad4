#include <fmt/format.h>

#include <memory>

#include "args.h"
#include "model/gguf_import.h"
#include "report/json.h"
#include "report/progress.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

void add_import(const model::GgufImportReport& r, report::Json& out) {
  out["parts"] = r.parts;
  out["architecture"] = r.config.architecture;
  out["tied_head"] = r.config.tied_head;
  out["tokenizer_pre"] = r.pre;
  out["tensors"] = r.tensors;
  out["weights"] = r.weights;
  out["bytes_in"] = r.bytes_in;
  out["bytes_out"] = r.bytes_out;
}

void print_import(const model::GgufImportReport& r, const std::string& folder) {
  tell(fmt::format("{}: {}, {} layers, {} tensors, {:.1f} M weights in BF16 ({:.1f} MB from {:.1f} MB), {} head, tokenizer {}",
             folder, r.config.architecture, r.config.layers, r.tensors, static_cast<double>(r.weights) / 1e6,
             static_cast<double>(r.bytes_out) / 1e6, static_cast<double>(r.bytes_in) / 1e6,
             r.config.tied_head ? "tied" : "untied", r.pre));
}

Result<model::GgufImportReport> import_with_progress(const std::string& gguf, const std::string& folder,
                                                     model::GgufImportOptions& options) {
  std::unique_ptr<report::Progress> line;  // made when the number of weights is known
  options.progress = [&](uint64_t done, uint64_t total) {
    if (!line) line = std::make_unique<report::Progress>("import", total, "weights");
    line->set(done);
  };
  return model::import_gguf(gguf, folder, options);
}

}  // namespace

int cmd_import(int argc, char** argv) {
  std::string gguf, folder;
  model::GgufImportOptions options;
  bool json = false;
  Args args("import",
            "Writes the model of a GGUF file as a BF16 Hugging Face folder: weights, configuration, tokenizer, chat template.",
            {"zeroulp import model.gguf models/mine", "zeroulp import big-00001-of-00003.gguf models/big --force",
             "zeroulp import old.gguf models/old --pre llama-bpe"});
  args.positional("FILE.gguf", gguf, "the file, or any part of a split one");
  args.output_folder("OUT_FOLDER", folder, "the folder to write");
  args.option("--pre", options.pre, "how text is split before BPE, for files that do not say it in tokenizer.ggml.pre");
  args.force(options.force, "replace an existing folder");
  args.flag("--json", json, "the outcome as JSON (schema zeroulp.import/1)");
  if (const int code = args.parse(argc, argv); code >= 0) return code;

  report::Report report("import");
  const auto imported = import_with_progress(gguf, folder, options);
  if (!imported) return fail("import", imported.error());
  if (!json) {
    print_import(*imported, folder);
    return 0;
  }
  report.body["source"] = gguf;
  report.body["folder"] = folder;
  add_import(*imported, report.body);
  if (const Status s = report.write("-", false); !s) return fail("import", s.error());
  return 0;
}

}  // namespace zeroulp::cli
