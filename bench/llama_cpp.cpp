// llama.cpp through its C interface, on the cells of bench_engine (engine.cpp); built by bench/llama_cpp.sh, not part of the project's build.
//
//   llama_cpp quantize IN.gguf OUT.gguf                     Q8_0, as its llama-quantize does
//   llama_cpp bench MODEL.gguf THREADS REPEATS STEPS CELL...  one JSON object: seconds per cell
//
// Everything else is llama.cpp's default, and as in its own llama-bench: threads wait in a pool, passes of 512 tokens, KV cache in F16,
// weights repacked at load where its kernels want that.
#include <ggml-cpu.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "llama_cpp: %s\n", what);
  std::exit(3);
}

int quantize(const char* in, const char* out) {
  llama_model_quantize_params p = llama_model_quantize_default_params();
  p.ftype = LLAMA_FTYPE_MOSTLY_Q8_0;
  p.allow_requantize = true;
  if (llama_model_quantize(in, out, &p) != 0) fail("quantize failed");
  return 0;
}

// Appends `count` tokens to each of `sequences` sequences that stand at `position`, in passes of at most 512.
double append(llama_context* context, int32_t vocab, int sequences, int position, int count) {
  static llama_batch batch = llama_batch_init(512, 0, 1);
  const Clock::time_point start = Clock::now();
  for (int done = 0; done < count;) {
    const int part = std::min(count - done, 512 / sequences);
    batch.n_tokens = 0;
    for (int s = 0; s < sequences; ++s)
      for (int i = 0; i < part; ++i) {
        const int at = batch.n_tokens++;
        batch.token[at] = static_cast<llama_token>((static_cast<unsigned>(position + done + i) * 2654435761u + static_cast<unsigned>(s) * 97u) % static_cast<unsigned>(vocab));
        batch.pos[at] = position + done + i;
        batch.n_seq_id[at] = 1;
        batch.seq_id[at][0] = s;
        batch.logits[at] = done + i == count - 1;
      }
    if (llama_decode(context, batch) != 0) fail("llama_decode failed");
    done += part;
  }
  llama_synchronize(context);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void measure(llama_context* context, int32_t vocab, const std::string& cell, int steps, std::vector<double>& seconds) {
  const std::string kind = cell.substr(0, cell.find(':'));
  const int n = std::atoi(cell.c_str() + cell.find(':') + 1), sequences = kind == "batch" ? n : 1;
  int position = kind == "batch" ? 32 : kind == "decode" ? std::max(n, 1) : 0;
  llama_memory_clear(llama_get_memory(context), true);
  if (kind == "prefill") {
    seconds.push_back(append(context, vocab, 1, 0, n));
    return;
  }
  append(context, vocab, sequences, 0, position);
  for (int i = 0; i < steps; ++i) seconds.push_back(append(context, vocab, sequences, position++, 1));
}

int bench(int argc, char** argv) {
  const int threads = std::atoi(argv[3]), repeats = std::atoi(argv[4]), steps = std::atoi(argv[5]);
  llama_model* model = llama_model_load_from_file(argv[2], llama_model_default_params());
  if (model == nullptr) fail("the model cannot be loaded");
  const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  uint32_t longest = 512;
  for (int i = 6; i < argc; ++i) {
    const std::string cell = argv[i];
    const auto n = static_cast<uint32_t>(std::atoi(cell.c_str() + cell.find(':') + 1));
    longest = std::max(longest, cell[0] == 'b' ? n * static_cast<uint32_t>(64 + steps) : n + static_cast<uint32_t>(steps) + 1);
  }
  llama_context_params p = llama_context_default_params();
  p.n_ctx = (longest + 255) / 256 * 256;
  p.n_seq_max = 16;
  p.kv_unified = true;
  p.n_threads = p.n_threads_batch = threads;
  llama_context* context = llama_init_from_model(model, p);
  if (context == nullptr) fail("no context");
  ggml_threadpool_params pool_params = ggml_threadpool_params_default(threads);
  ggml_threadpool* pool = ggml_threadpool_new(&pool_params);
  llama_attach_threadpool(context, pool, nullptr);
  append(context, vocab, 1, 0, 16);  // warm
  std::printf("{\"cells\": [");
  for (int i = 6; i < argc; ++i) {
    std::vector<double> seconds;
    for (int r = 0; r < repeats; ++r) measure(context, vocab, argv[i], steps, seconds);
    const std::string cell = argv[i];
    std::printf("%s{\"cell\": \"%s\", \"tokens\": %d, \"seconds\": [", i > 6 ? ", " : "", argv[i],
                cell[0] == 'd' ? 1 : std::atoi(cell.c_str() + cell.find(':') + 1));
    for (size_t s = 0; s < seconds.size(); ++s) std::printf("%s%.9g", s > 0 ? ", " : "", seconds[s]);
    std::printf("]}");
  }
  std::printf("]}\n");
  llama_free(context);
  ggml_threadpool_free(pool);
  llama_model_free(model);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  llama_log_set([](ggml_log_level level, const char* text, void*) { if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr); }, nullptr);
  llama_backend_init();
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "quantize" && argc == 4) return quantize(argv[2], argv[3]);
  if (verb == "bench" && argc > 6) return bench(argc, argv);
  std::fprintf(stderr, "usage: llama_cpp quantize IN OUT | bench MODEL THREADS REPEATS STEPS CELL...\n");
  return 2;
}
