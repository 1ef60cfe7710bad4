#include <fmt/format.h>

#include <memory>

#include "args.h"
#include "engine/mpi_exchange.h"
#include "model_text.h"
#include "report/json.h"
#include "verbs.h"
#include "verify/tiny.h"
#include "verify/verify.h"

namespace zeroulp::cli {
namespace {

struct Options {
  std::string model, text, workload, json = "-";
  verify::RunConfig config;
  int64_t threads = 1, batch = 1, chunk = 0, ranks = 1, decode = 4;
  std::string device = "cpu";
  bool mpi = false, force = false, no_graphs = false;
};

bool is_seeded(const Options& o) { return o.model.starts_with("seeded:"); }

Result<verify::Workload> workload_of(const Options& o) {
  if (!o.workload.empty()) {
    ZU_TRY_ASSIGN(const io::Json json, io::read_json_file(o.workload));
    return verify::workload_from_json(json, o.workload);
  }
  if (is_seeded(o)) return verify::tiny_workload();
  ZU_TRY_ASSIGN(const ModelText text, read_model_text("digest", o.model, o.text));
  return verify::make_workload(text.tokens, {127, 128, 129, 1, 40}, o.decode);
}

struct Inputs {
  model::QuantizedModel model;
  verify::Workload work;
};

Result<Inputs> read_inputs(const Options& o) {
  ZU_TRY_ASSIGN(model::QuantizedModel model, is_seeded(o) ? verify::tiny_model(o.model.substr(7)) : model::QuantizedModel::open(o.model));
  ZU_TRY_ASSIGN(verify::Workload work, workload_of(o));
  return Inputs{std::move(model), std::move(work)};
}

// Whether every process of the launch could read its inputs; one that could not would leave the others waiting for it. Gives the exit code
// to end with, 0 to go on. The first process speaks for all if it failed itself; else those speak that did.
int agree(engine::Exchange& exchange, const Result<Inputs>& inputs) {
  const auto mine = static_cast<uint16_t>(inputs ? 0 : static_cast<int>(inputs.error().code));
  uint16_t codes[] = {exchange.rank() == 0 ? mine : uint16_t{0}, mine};
  exchange.max(codes);
  if (mine != 0 && (codes[0] == 0 || exchange.rank() == 0))
    say(fmt::format("zeroulp digest: {}{}", codes[0] == 0 ? fmt::format("MPI process {}: ", exchange.rank()) : "", inputs.error().text));
  const int code = codes[0] != 0 ? codes[0] : codes[1];
  if (code != 0) exchange.max(codes);  // the launcher ends all processes when one fails: wait for those that speak
  return code;
}

Result<int> run(Options& o) {
  report::Report report("digest");
  std::unique_ptr<engine::Exchange> exchange;
  if (o.mpi || engine::launched_by_mpi()) {
    ZU_TRY_ASSIGN(exchange, engine::make_mpi_exchange());
    o.ranks = exchange->size();
  }
  Result<Inputs> inputs = read_inputs(o);
  if (exchange) {
    if (const int code = agree(*exchange, inputs); code != 0) return code;
  } else if (!inputs) {
    return std::move(inputs).error();
  }
  const auto& [model, work] = *inputs;
  ZU_TRY_ASSIGN(o.config.device, device::parse_device(o.device));
  o.config.graphs = !o.no_graphs;
  o.config.threads = static_cast<int>(o.threads);
  o.config.batch = static_cast<int>(o.batch);
  o.config.chunk = o.chunk;
  o.config.ranks = static_cast<int>(o.ranks);
  ZU_TRY_ASSIGN(const verify::DigestLog log, verify::run_digests(model, work, o.config, engine::Plant::kNone, exchange.get()));
  if (exchange && exchange->rank() != 0) return 0;
  report.body.update(log.to_json());
  report.body["config"] = o.config.to_json();
  report.body["config"]["ranks_are"] = exchange ? "MPI processes" : "threads";
  report.body["model"] = {{"identity", model.identity()}, {"contract", model::kContract}};
  ZU_TRY(report.write(o.json, o.force));
  return 0;
}

}  // namespace

int cmd_digest(int argc, char** argv) {
  Options o;
  Args args("digest", "Write the digest log of one configuration: what `zeroulp diff` compares.",
            {"zeroulp digest models/smollm2-w8a15 --kernel reference --json a.json",
             "mpirun -n 3 zeroulp digest models/smollm2-w8a15 --json b.json   # the tensor-parallel ranks are MPI processes",
             "zeroulp digest seeded:qwen3 --threads 2"});
  args.positional("MODEL", o.model, "folder of a quantised model, or seeded:llama, seeded:qwen2, seeded:qwen3");
  args.input("--text", o.text, "text to take prompts from; without it a short built-in one");
  args.input("--workload", o.workload, "JSON with {\"prompts\": [[token, ...], ...], \"decode_tokens\": n} instead of a text");
  args.option("--decode", o.decode, "greedy tokens after each prompt", 0, verify::kMaxDecodeTokens);
  args.option("--kernel", o.config.kernel, "force a variant (zeroulp doctor lists them), or op=variant,...; empty: the fastest");
  args.option("--device", o.device, "cpu, cuda or cuda:N; moves no bit");
  args.flag("--no-graphs", o.no_graphs, "on a GPU: launch every kernel by itself");
  args.option("--threads", o.threads, "threads of each rank", 1, 1024);
  args.option("--batch", o.batch, "sequences that are computed together", 1, 256);
  args.option("--chunk", o.chunk, "tokens of a sequence per prefill pass; 0: all", 0, 1 << 20);
  args.option("--ranks", o.ranks, "tensor-parallel ranks in this process", 1, engine::kMaxRanks);
  args.flag("--mpi", o.mpi, "ranks are MPI processes (found out by itself under mpirun)");
  args.flag("--prefix-cache", o.config.prefix_cache, "send every prompt twice and take the second time");
  args.output("--json", o.json, "where the log goes; - for standard output");
  args.force(o.force, "replace an existing file");
  args.excludes({"--text", "--decode"}, {"--workload"});
  args.needs({"--text", "--decode"}, [&] { return !is_seeded(o); }, "a model folder (a seeded model has its own tokens)");
  args.excludes({"--ranks"}, {"--mpi"});
  args.needs({"--no-graphs"}, [&o] { return o.device != "cpu"; }, "a GPU (--device cuda)");
  args.needs({"--ranks"}, [] { return !engine::launched_by_mpi(); }, "one process (mpirun -n has set the ranks)");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Result<int> code = run(o);
  return code ? *code : fail("digest", code.error());
}

}  // namespace zeroulp::cli
