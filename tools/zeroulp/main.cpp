// The verb table. Adding a verb: one cmd_*.cpp, one line in verbs.h, one row here.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include "args.h"
#include "base/interrupt.h"
#include "engine/mpi_exchange.h"
#include "verbs.h"

namespace {

using namespace zeroulp::cli;

struct Verb {
  std::string_view name;
  int (*run)(int argc, char** argv);
  std::string_view summary;
  bool under_mpi = false;  // its processes may be the ranks of an MPI launch
};

constexpr Verb kVerbs[] = {
    {"verify", cmd_verify, "is it still the same model? digests over every axis, foreign epilogues, quality"},
    {"run", cmd_run, "generate text; the same bits on every kernel, batch, thread count and machine"},
    {"digest", cmd_digest, "the digest log of one configuration", true},
    {"diff", cmd_diff, "what changed between two checkpoints, tensor files or digest logs"},
    {"faults", cmd_faults, "which checks would notice a wrong kernel? one known fault after another, against ten gates"},
    {"cases", cmd_cases, "your own kernel against the contract: emit OP | ./kernel | check"},
    {"peers", cmd_peers, "kernels that others ship, on a model's own inputs"},
    {"doctor", cmd_doctor, "what can run on this machine, and why the rest cannot"},
    {"quality", cmd_quality, "perplexity of a model on a text, and how far it is from a reference"},
    {"quantize", cmd_quantize, "a Hugging Face model to an integer model under the contract"},
    {"export", cmd_export, "a quantised model as a compressed-tensors checkpoint"},
    {"import", cmd_import, "a GGUF file as a BF16 Hugging Face folder"},
    {"info", cmd_info, "what is in a model folder, a safetensors file or a GGUF file"},
    {"pack", cmd_pack, "a checkpoint without loss in fewer bytes; opens directly as it is"},
    {"unpack", cmd_unpack, "the original bytes of a packed checkpoint"},
    {"bench", cmd_bench, "measurements: the codec beside a copy, a cache from process to process"},
    {"tokenize", cmd_tokenize, "text to token ids as Hugging Face's tokenizers gives them, and back"},
};

void print_overview(std::FILE* to) {
  fmt::print(to, "zeroulp {}: is it still the same model?\n\nUsage: zeroulp VERB [options]; zeroulp VERB --help\n\n", ZEROULP_VERSION);
  for (const Verb& v : kVerbs) fmt::print(to, "  {:<10} {}\n", v.name, v.summary);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

int unknown_verb(std::string_view word) {
  const Verb* nearest = std::min_element(std::begin(kVerbs), std::end(kVerbs), [&](const Verb& a, const Verb& b) {
    return edit_distance(word, a.name) < edit_distance(word, b.name);
  });
  const bool near = edit_distance(word, nearest->name) <= 2;
  say(fmt::format("zeroulp: there is no verb '{}'{} (zeroulp alone lists them)", word, near ? fmt::format("; did you mean '{}'?", nearest->name) : ""));
  return 2;
}

// The exit code when everything was written to standard output.
int written(int code, std::string_view what) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (code > 1) return code;  // the verb has said what went wrong
  say(fmt::format("{}: cannot write to standard output", what));
  return code == 0 ? 3 : code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    print_overview(stdout);
    return written(0, "zeroulp");
  }
  const std::string_view word = argv[1];
  if (word == "-h" || word == "--help" || word == "help") {
    print_overview(stdout);
    return written(0, "zeroulp");
  }
  if (word == "--version") {
    fmt::print("zeroulp {}\n", ZEROULP_VERSION);
    return written(0, "zeroulp");
  }
  zeroulp::install_interrupt_handler();
  for (const Verb& v : kVerbs) {
    if (v.name != word) continue;
    if (zeroulp::engine::launch_size() > 1 && !v.under_mpi)
      return fail(std::string(word), zeroulp::usage_error("is one process; under mpirun use zeroulp digest"));
    try {
      return written(v.run(argc - 1, argv + 1), fmt::format("zeroulp {}", word));
    } catch (const std::bad_alloc&) {
      say(fmt::format("zeroulp {}: out of memory", word));
      return 4;
    } catch (const std::system_error& e) {
      if (e.code() == std::errc::resource_unavailable_try_again) {
        say(fmt::format("zeroulp {}: no more threads are to be had here; give fewer with --threads or --ranks, or raise the limit (ulimit -u, -v)", word));
        return 4;
      }
      say(fmt::format("zeroulp {}: {}", word, e.what()));
      return 3;
    } catch (const std::exception& e) {
      say(fmt::format("zeroulp {}: internal error: {}; please report this", word, e.what()));
      return 5;
    }
  }
  return unknown_verb(word);
}
