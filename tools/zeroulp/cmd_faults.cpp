#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>

#include "args.h"
#include "model_text.h"
#include "report/progress.h"
#include "verbs.h"
#include "verify/faults/study_report.h"
#include "verify/tiny.h"

namespace zeroulp::cli {
namespace {

constexpr std::string_view kSeeded = "seeded:";

struct Options {
  std::string model, text, results, json, html;
  std::vector<std::string> only;
  bool list = false, suite = false, force = false, outputs = false;
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
};

Result<int> run(const Options& o) {
  report::Report report("faults");
  verify::StudyRequest request;
  std::unique_ptr<model::QuantizedModel> model;
  if (o.model.starts_with(kSeeded)) {
    ZU_TRY_ASSIGN(model::QuantizedModel tiny, verify::tiny_model(o.model.substr(kSeeded.size())));
    model = std::make_unique<model::QuantizedModel>(std::move(tiny));
    request.effort = verify::StudyEffort::tiny();
    request.text_name = "made tokens";
    int32_t value = 1;
    for (int i = 0; i < 600; ++i) request.tokens.push_back(value = static_cast<int32_t>((value * 37 + i) % model->config().vocab));
  } else {
    ZU_TRY_ASSIGN(model::QuantizedModel opened, model::QuantizedModel::open(o.model));
    model = std::make_unique<model::QuantizedModel>(std::move(opened));
    ZU_TRY_ASSIGN(ModelText text, read_model_text("faults", o.model, o.text));
    request.tokens = std::move(text.tokens);
    request.text_name = text.name;
    request.text_sha256 = text.sha256;
  }
  if (o.outputs) request.effort = request.effort.outputs_only();
  request.model = model.get();
  request.threads = static_cast<int>(o.threads);
  request.folder = o.results;
  request.only = o.only;
  auto study = [&] {
    const size_t total = o.only.empty() ? verify::faults().size() : o.only.size();
    report::Progress bar("faults", total);
    verify::StudyCallbacks callbacks{[&bar](const std::string& step, int64_t done, int64_t) {
      bar.set(static_cast<uint64_t>(done));
      bar.detail(step);
    }};
    return verify::run_study(request, callbacks);
  }();
  if (!study) return std::move(study).error();
  study->model_name = o.model.starts_with(kSeeded) ? o.model : std::filesystem::path(o.model).filename().string();
  if (o.json != "-") {
    fmt::print("{}\nx: the gate notices the fault; .: it passes; -: not asked; !: predicted otherwise\n\n", verify::kill_table(*study).text());
    for (const std::string& line : verify::findings(*study)) fmt::print("{}\n", line);
    fmt::print("\ncannot change a bit, and left out: {} (--list says why)\n{}\n", verify::equivalents().size(), verify::headline(*study));
  }
  verify::to_json(*study, report.body);
  if (!o.json.empty()) ZU_TRY(report.write(o.json, o.force));
  if (!o.html.empty()) ZU_TRY(verify::to_page(*study, report.finished()).write(o.html, o.force));
  return study->holds() ? 0 : 1;
}

Result<int> run_suite(const Options& o) {
  report::Report report("faults");
  for (const std::string& name : o.only)
    if (verify::find_fault(name) == nullptr) return usage_error(fmt::format("--only {}: there is no such fault; --list names them", name));
  const auto gates = [&] {
    report::Progress bar("faults on the suite's inputs", 0);
    return verify::gates_on_suite(o.only, [&bar](std::string_view op) { bar.detail(std::string(op)); });
  }();
  if (gates.empty()) return interrupted();
  if (o.json != "-") {
    fmt::print("{}\nx: the gate notices the fault in a case of the suite; .: it passes all; -: not asked\n\n", verify::suite_table(gates).text());
    for (const std::string& line : verify::findings(gates)) tell(line);
  }
  verify::to_json(gates, report.body);
  if (!o.json.empty()) ZU_TRY(report.write(o.json, o.force));
  return std::all_of(gates.begin(), gates.end(), [](const verify::SuiteGates& g) { return g.seen(verify::Gate::kEqual) == verify::Seen::kNoticed; }) ? 0 : 1;
}

}  // namespace

int cmd_faults(int argc, char** argv) {
  Options o;
  Args args("faults", "Which checks would notice a wrong kernel? A model under one known fault after another, against ten gates.",
            {"zeroulp faults models/smollm2-w8a15 --text models/text/technical.txt --results out/faults --html out/faults.html",
             "zeroulp faults seeded:llama --results out/tiny --only scale-order --only k-tail", "zeroulp faults --suite"});
  args.positional("MODEL", o.model, "folder of a quantised model, or seeded:llama, seeded:qwen2, seeded:qwen3 for a tiny one", false);
  args.input("--text", o.text, "ordinary text of 4,096 tokens or more");
  args.option("--results", o.results, "folder with one file per fault: made where it is missing, gone on with where it is not");
  args.option("--only", o.only, "a fault to run, by name; may be repeated; without it all");
  args.flag("--outputs", o.outputs, "only the gates on outputs, not those on the model's text: minutes, not an hour");
  args.option("--threads", o.threads, "threads", 1, 1024);
  args.flag("--list", o.list, "the catalogue with its predictions, and what cannot change a bit; nothing is run");
  args.flag("--suite", o.suite, "the gates on outputs asked of the suite's own inputs; no model takes part");
  args.output("--json", o.json, "write the report as JSON; - for standard output");
  args.output("--html", o.html, "write the report as a page: the kill matrix as a heat map");
  args.force(o.force, "replace existing reports");
  args.excludes({"--list"}, {"MODEL", "--text", "--results", "--only", "--outputs", "--threads", "--json", "--html", "--suite"});
  args.excludes({"--suite"}, {"MODEL", "--text", "--results", "--outputs", "--threads", "--html"});
  args.needs({"--text"}, [&o] { return !o.model.starts_with(kSeeded); }, "a MODEL that is a folder (a seeded one is given made tokens)");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  if (o.list) {
    fmt::print("{}\ncannot change a bit:\n{}", verify::fault_table().text(), verify::equivalent_table().text());
    return 0;
  }
  if (o.suite) {
    const Result<int> code = run_suite(o);
    return code ? *code : fail("faults", code.error());
  }
  if (o.model.empty()) return fail("faults", usage_error("needs a MODEL, or --list or --suite"));
  if (o.results.empty()) return fail("faults", usage_error("needs --results FOLDER"));
  const Result<int> code = run(o);
  return code ? *code : fail("faults", code.error());
}

}  // namespace zeroulp::cli
