#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "args.h"
#include "model_text.h"
#include "report/json.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/text.h"
#include "verbs.h"
#include "verify/peers.h"

namespace zeroulp::cli {
namespace {

struct Options {
  std::string model, text, json;
  int64_t tokens = 64, prompts = 8, prompt_tokens = 24, generate = 32, threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::string> only;
  bool sources = false, force = false;
};

using report::Align;

std::string rate(int64_t part, int64_t total) { return total == 0 ? "-" : part == 0 ? "0" : fmt::format("{:.2e}", static_cast<double>(part) / static_cast<double>(total)); }
std::string generations(const verify::Generations& g) {
  if (g.prompts == 0) return "-";
  return g.part == 0 ? "the same" : fmt::format("{} of {} part, first at token {}", g.part, g.prompts, g.first);
}

void print(const verify::PeerStudy& s) {
  report::Table linears({{"linear"}, {"bias"}, {"outputs", Align::kRight}, {"differ", Align::kRight}, {"1 spacing", Align::kRight}, {"2", Align::kRight}, {"3", Align::kRight},
                         {"4", Align::kRight}, {"5 and more", Align::kRight}, {"generations"}});
  for (const verify::PeerLinear& l : s.linears)
    for (const bool biased : {false, true}) {
      const verify::SpacingHistogram& h = biased ? l.biased : l.unbiased;
      if (h.total() == 0) continue;
      linears.row({std::string(l.name), biased ? "with" : "without", report::count_text(h.total()), rate(h.differing(), h.total()), report::count_text(h.count[1]),
                   report::count_text(h.count[2]), report::count_text(h.count[3]), report::count_text(h.count[4]), report::count_text(h.count[5]),
                   biased ? "" : generations(l.generations)});
    }
  fmt::print("{} rows of linear inputs, codes and scales by the contract:\n{}\n", report::count_text(s.inputs), linears.text());
  report::Table quantisers({{"quantiser"}, {"rows", Align::kRight}, {"scales differ", Align::kRight}, {"codes", Align::kRight}, {"codes differ", Align::kRight}});
  for (const verify::PeerQuantiser& q : s.quantisers)
    quantisers.row({std::string(q.name), report::count_text(q.rows), rate(q.scales_differ, q.rows), report::count_text(q.codes), rate(q.codes_differ, q.codes)});
  fmt::print("{}\n", quantisers.text());
  report::Table stacks({{"stack: quantiser and linear"}, {"greedy generations against the contract's"}});
  for (const verify::PeerStackResult& r : s.stacks) stacks.row({std::string(r.name), generations(r.generations)});
  fmt::print("{}", stacks.text());
}

report::Json to_json(const verify::Generations& g) { return {{"prompts", g.prompts}, {"part", g.part}, {"first", g.first}}; }

void fill(report::Json& body, const verify::PeerStudy& s) {
  body["inputs"] = s.inputs;
  for (const char* list : {"linears", "quantisers", "stacks"}) body[list] = report::Json::array();
  for (const verify::PeerLinear& l : s.linears)
    body["linears"].push_back({{"name", l.name}, {"spacings", l.unbiased.count}, {"spacings_biased", l.biased.count}, {"generations", to_json(l.generations)}});
  for (const verify::PeerQuantiser& q : s.quantisers)
    body["quantisers"].push_back({{"name", q.name}, {"rows", q.rows}, {"scales_differ", q.scales_differ}, {"codes", q.codes}, {"codes_differ", q.codes_differ}});
  for (const verify::PeerStackResult& r : s.stacks) body["stacks"].push_back({{"name", r.name}, {"generations", to_json(r.generations)}});
}

void print_sources() {
  for (const auto* list : {"linear", "quantiser"}) {
    const bool linear = std::string_view(list) == "linear";
    for (const ops::peers::Origin& o : linear ? std::span<const ops::peers::Origin>(ops::peers::kLinears) : std::span<const ops::peers::Origin>(ops::peers::kQuantisers))
      fmt::print("{} {}\n  {} {}\n  {}\n  {}\n", list, o.name, o.repository, o.commit, o.place, o.arithmetic);
  }
}

Status run(const Options& o) {
  if (o.sources) {
    print_sources();
    return {};
  }
  if (o.model.empty()) return usage_error("a MODEL is missing; --sources alone needs none");
  report::Report report("peers");
  ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o.model));
  ZU_TRY_ASSIGN(const ModelText text, read_model_text("peers", o.model, o.text));
  const int64_t needed = o.tokens + o.prompts * o.prompt_tokens;
  if (static_cast<int64_t>(text.tokens.size()) < needed) return bad_input(fmt::format("the text has {} tokens; {} are needed (--text FILE)", text.tokens.size(), needed));
  verify::PeerPlan plan;
  plan.tokens.assign(text.tokens.begin(), text.tokens.begin() + o.tokens);
  for (int64_t i = 0; i < o.prompts; ++i) {
    const auto from = text.tokens.begin() + o.tokens + i * o.prompt_tokens;
    plan.prompts.emplace_back(from, from + o.prompt_tokens);
  }
  plan.generated = o.generate;
  plan.threads = static_cast<int>(o.threads);
  plan.only = o.only;
  std::unique_ptr<report::Progress> bar;
  std::string step_at;
  plan.progress = [&](std::string_view step, int64_t done, int64_t total) {
    if (step != step_at || !bar) {
      bar.reset();
      step_at = step;
      bar = std::make_unique<report::Progress>(step_at, static_cast<uint64_t>(total));
    }
    bar->set(static_cast<uint64_t>(done));
  };
  const auto study = verify::study_peers(model, plan);
  bar.reset();
  if (!study) return study.error();
  if (o.json != "-") print(*study);
  report.body["model"] = {{"identity", model.identity()}, {"profile", model.header().profile}};
  report.body["text"] = {{"name", text.name}, {"sha256", text.sha256}};
  report.body["plan"] = {{"tokens", o.tokens}, {"prompts", o.prompts}, {"prompt_tokens", o.prompt_tokens}, {"generated", o.generate}};
  fill(report.body, *study);
  return o.json.empty() ? Status() : report.write(o.json, o.force);
}

}  // namespace

int cmd_peers(int argc, char** argv) {
  Options o;
  Args args("peers", "Kernels that others ship, on a model's own inputs: which of them have the contract's bits, and how far off are the others?",
            {"zeroulp peers models/smollm2-w8a8-po2 --text models/text/technical.txt", "zeroulp peers --sources"});
  args.positional("MODEL", o.model, "folder of a quantised model of 8-bit activations (w8a8-free, w8a8-po2)", false);
  args.input("--text", o.text, "ordinary text to work on; without it a short built-in one");
  args.option("--tokens", o.tokens, "tokens whose linear inputs are compared", 1, 4096);
  args.option("--prompts", o.prompts, "generations to compare; 0: none", 0, 1024);
  args.option("--prompt-tokens", o.prompt_tokens, "length of each prompt", 1, 4096);
  args.option("--generate", o.generate, "tokens after each prompt", 1, 4096);
  args.option("--threads", o.threads, "threads", 1, 1024);
  args.option("--only", o.only, "a linear, a quantiser or a stack, by its name in the tables; may be repeated; without it all");
  args.flag("--sources", o.sources, "list the linears and quantisers: repository, commit, place, arithmetic");
  args.output("--json", o.json, "write the findings to this file; - for standard output");
  args.force(o.force, "replace an existing file");
  args.excludes({"MODEL", "--text", "--tokens", "--prompts", "--prompt-tokens", "--generate", "--threads", "--only", "--json"}, {"--sources"});
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Status status = run(o);
  return status ? 0 : fail("peers", status.error());
}

}  // namespace zeroulp::cli
