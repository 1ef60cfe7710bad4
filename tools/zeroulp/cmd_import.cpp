#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "args.h"
#include "model/gguf_import.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

// One line on a terminal, at most ten times a second; nothing elsewhere.
class ProgressLine {
 public:
  void show(uint64_t done, uint64_t total) {
    if (!terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    if (done < total && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    fmt::print(stderr, "\rimport  {:3} %  {:.0f} M weights/s  {:.0f} s left ", 100 * done / total, rate / 1e6,
               rate > 0 ? static_cast<double>(total - done) / rate : 0);
    shown_ = true;
  }
  void end() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = start_;
  bool shown_ = false;
};

void print_report(const model::GgufImportReport& r, const std::string& source, const std::string& folder, bool json) {
  if (json) {
    nlohmann::ordered_json out{{"schema", "zeroulp.import/1"}, {"source", source},   {"parts", r.parts},     {"folder", folder},
                               {"architecture", r.config.architecture}, {"tied_head", r.config.tied_head}, {"tokenizer_pre", r.pre},
                               {"tensors", r.tensors},         {"weights", r.weights}, {"bytes_in", r.bytes_in}, {"bytes_out", r.bytes_out}};
    fmt::print("{}\n", out.dump());
    return;
  }
  fmt::print("{}: {}, {} layers, {} tensors, {:.1f} M weights in BF16 ({:.1f} MB from {:.1f} MB), {} head, tokenizer {}\n", folder,
             r.config.architecture, r.config.layers, r.tensors, static_cast<double>(r.weights) / 1e6,
             static_cast<double>(r.bytes_out) / 1e6, static_cast<double>(r.bytes_in) / 1e6, r.config.tied_head ? "tied" : "untied", r.pre);
}

}  // namespace

int cmd_import(int argc, char** argv) {
  std::string gguf, folder;
  model::GgufImportOptions options;
  bool json = false;
  Args args("import", "Writes the model of a GGUF file as a BF16 Hugging Face folder: weights, configuration, tokenizer, chat template.",
            {"zeroulp import model.gguf models/mine", "zeroulp import big-00001-of-00003.gguf models/big --force",
             "zeroulp import old.gguf models/old --pre llama-bpe"});
  args.positional("FILE.gguf", gguf, "the file, or any part of a split one");
  args.positional("OUT_FOLDER", folder, "the folder to write");
  args.option("--pre", options.pre, "how text is split before BPE, for files that do not say it in tokenizer.ggml.pre");
  args.flag("--force", options.force, "replace an existing folder");
  args.flag("--json", json, "print the report as JSON");
  if (const int code = args.parse(argc, argv); code >= 0) return code;

  ProgressLine line;
  options.progress = [&](uint64_t done, uint64_t total) { line.show(done, total); };
  const auto report = model::import_gguf(gguf, folder, options);
  line.end();
  if (!report) return fail("import", report.error());
  print_report(*report, gguf, folder, json);
  return 0;
}

}  // namespace zeroulp::cli
