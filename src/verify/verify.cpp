#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "engine/float_decoder.h"
#include "io/fields.h"

namespace zeroulp::verify {

Effort Effort::quick() {
  Effort e;
  e.max_runs = 14;
  e.reference_in_array = false;
  e.decode_tokens = 4;
  e.prompt_lengths = {129, 1, 20};
  e.order_tokens = 256;
  e.prompts = 8;
  e.generated = 48;
  e.quality_tokens = 2048;
  return e;
}

Effort Effort::full(int64_t weight_bytes) {
  Effort e;
  if (weight_bytes > int64_t{300} << 20) {
    e.max_runs = 12;
    e.reference_in_array = false;
    e.prompt_lengths = {127, 128, 129, 1, 40};
  }
  return e;
}

bool Answer::holds() const {
  const auto agrees = [](const OrderHistograms& h) { return h.power_of_two[0].total() + h.power_of_two[1].total() > 0 && h.power_of_two[0].differing() == 0; };
  bool po2_agree = agrees(orders);
  for (const OrderComparison::OnDevice& d : orders.on_device) po2_agree &= !d.why_not.empty() || agrees(d);
  for (const Parting& p : partings) po2_agree &= has_bias || p.power_of_two.prompts_that_part() == 0;
  return (!has_digests || digests.holds()) && po2_agree;
}

std::string Answer::verdict() const {
  if (!has_digests) return fmt::format("power-of-two scales {} the epilogues agree; no digests were compared", holds() ? "made" : "did not make");
  if (digests.rows.size() <= 1) return "nothing was compared";
  if (!digests.holds())
    return fmt::format("the bits depend on: {}", digests.guilty_axes.empty() ? std::string("a combination of axes (no single one)")
                                                                              : fmt::format("{}", fmt::join(digests.guilty_axes, ", ")));
  if (!holds()) return "equal bits on every axis, but power-of-two scales did not make the two epilogues agree";
  return fmt::format("the same bits in all {} runs", digests.rows.size());
}

Workload make_workload(const std::vector<int32_t>& tokens, const std::vector<int64_t>& lengths, int64_t decode_tokens) {
  Workload work;
  work.decode_tokens = decode_tokens;
  size_t at = 301;
  for (const int64_t length : lengths) {
    const auto n = std::min(static_cast<size_t>(length), tokens.size());
    const bool shared = length >= 127 && length <= 300;
    if (!shared && at + n > tokens.size()) at = 0;
    const size_t begin = shared ? 0 : at;
    work.prompts.emplace_back(tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(begin + n));
    if (!shared) at += n;
  }
  return work;
}

io::Json workload_to_json(const Workload& w) { return {{"prompts", w.prompts}, {"decode_tokens", w.decode_tokens}}; }

Result<Workload> workload_from_json(const io::Json& json, const std::string& name) {
  ZU_TRY_ASSIGN(const io::Fields fields, io::Fields::of(json, name));
  ZU_TRY_ASSIGN(const io::Json* prompts, fields.array("prompts"));
  Workload w;
  for (const io::Json& prompt : *prompts) {
    const std::string what = fmt::format("{}: prompts: prompt {}", name, w.prompts.size());
    ZU_TRY_ASSIGN(const std::vector<int64_t> tokens, io::integers_of(prompt, what, 0, INT32_MAX));
    if (tokens.empty()) return bad_input(fmt::format("{} has no tokens", what));
    w.prompts.emplace_back(tokens.begin(), tokens.end());
  }
  if (w.prompts.empty()) return fields.error("prompts", "holds no prompt");
  ZU_TRY_ASSIGN(w.decode_tokens, fields.integer("decode_tokens", 0, kMaxDecodeTokens));
  return w;
}

namespace {

class Verification {
 public:
  Verification(const Request& request, const Callbacks& callbacks) : r_(request), callbacks_(callbacks) {}

  Result<Answer> run() {
    const int64_t needed = std::max(r_.effort.order_tokens, int64_t{400});
    if (static_cast<int64_t>(r_.tokens.size()) < needed)
      return bad_input(fmt::format("the text has {} tokens; verify needs {} at least", r_.tokens.size(), needed));
    answer_.has_bias = r_.model->config().qkv_bias;
    ZU_TRY(r_.model->verify_identity());
    answer_.has_digests = r_.digests;
    if (!r_.digests) {
      answer_.skipped.push_back("digests and quality: only the epilogues were asked for");
      ZU_TRY(foreign_part());
      return std::move(answer_);
    }
    ZU_TRY(digest_part());
    if (!answer_.digests.holds()) {
      if (r_.locate) ZU_TRY(locate_part());
      answer_.skipped.push_back("epilogues, generations and quality: the digests differ, which comes first");
      return std::move(answer_);
    }
    ZU_TRY(foreign_part());
    ZU_TRY(quality_part());
    return std::move(answer_);
  }

 private:
  void progress(const std::string& step, int64_t done, int64_t total) const {
    if (callbacks_.progress) callbacks_.progress(step, done, total);
  }

  Status digest_part() {
    TablePlan plan;
    plan.baseline = {.kernel = "reference", .threads = r_.threads};
    plan.axes = Axes::on_this_machine(!r_.effort.reference_in_array);
    plan.max_runs = r_.effort.max_runs;
    plan.plant = r_.plant;
    for (const ops::VariantStatus& v : ops::variant_status(cpu_features()))
      if (!v.why_not.empty()) answer_.skipped.push_back(fmt::format("kernel {}: {}", v.name, v.why_not));
    const Workload work = make_workload(r_.tokens, r_.effort.prompt_lengths, r_.effort.decode_tokens);
    baseline_ = plan.baseline;
    work_ = work;
    int64_t done = 0;
    progress("digests", 0, plan.max_runs + 1);
    ZU_TRY_ASSIGN(answer_.digests,
                  run_digest_table(*r_.model, work, plan, [&](const TableRow&) { progress("digests", ++done, plan.max_runs + 1); }));
    ZU_TRY(mpi_rows(work));
    return device_rows(work);
  }

  // The first run in this process that differs from the baseline: where?
  Status locate_part() {
    const auto& rows = answer_.digests.rows;
    const auto row = std::find_if(rows.begin(), rows.end(), [](const TableRow& r) { return r.how == "threads" && !r.difference.holds(); });
    if (row == rows.end()) {
      answer_.skipped.push_back("first divergence: only runs in other processes or on a GPU differ, which cannot be traced");
      return {};
    }
    progress("first divergence", 0, 1);
    answer_.located_in = row->config;
    ZU_TRY_ASSIGN(answer_.first_difference, locate(*r_.model, work_, baseline_, row->config, r_.plant));
    return {};
  }

  // Tensor-parallel ranks as processes, beside those that were threads.
  Status mpi_rows(const Workload& work) {
    if (!r_.under_mpi) {
      answer_.skipped.push_back(fmt::format("ranks as MPI processes: {}", r_.why_no_mpi));
      return {};
    }
    if (r_.plant != engine::Plant::kNone) return {};  // the other processes would not have it
    for (const int ranks : {2, 3}) {
      if (interrupt_requested()) return interrupted();
      progress(fmt::format("{} MPI processes", ranks), 0, 1);
      const auto started = std::chrono::steady_clock::now();
      ZU_TRY_ASSIGN(const DigestLog log, r_.under_mpi(work, ranks));
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
      TableRow row{{.ranks = ranks}, "MPI processes", log.combined(), compare(answer_.digests.baseline, log), log.kernels, {}, elapsed.count()};
      if (!row.difference.holds()) answer_.digests.guilty_axes.push_back(fmt::format("tensor-parallel degree ({} MPI processes)", ranks));
      answer_.digests.rows.push_back(std::move(row));
    }
    return {};
  }

  // The same workload on the GPU, beside the processor's rows.
  Status device_rows(const Workload& work) {
    if (r_.device < 0 || r_.plant != engine::Plant::kNone) return {};
    const std::vector<RunConfig> configs = device_configs(r_.device);
    int64_t done = 0;
    for (const RunConfig& config : configs) {
      if (interrupt_requested()) return interrupted();
      progress(fmt::format("cuda:{}", r_.device), done++, static_cast<int64_t>(configs.size()));
      const auto started = std::chrono::steady_clock::now();
      ZU_TRY_ASSIGN(const DigestLog log, run_digests(*r_.model, work, config));
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
      TableRow row{config, fmt::format("cuda:{}", r_.device), log.combined(), compare(answer_.digests.baseline, log), log.kernels, log.graph_kernels(), elapsed.count()};
      if (!row.difference.holds()) answer_.digests.guilty_axes.push_back("device (" + config.describe() + ")");
      answer_.digests.rows.push_back(std::move(row));
    }
    return {};
  }

  Status foreign_part() {
    progress("8-bit copies", 0, 2);
    ZU_TRY_ASSIGN(const model::QuantizedModel arbitrary, with_8bit_activations(*r_.model, false));
    progress("8-bit copies", 1, 2);
    ZU_TRY_ASSIGN(const model::QuantizedModel power, with_8bit_activations(*r_.model, true));
    progress("epilogues on captured inputs", 0, 1);
    const std::vector<int32_t> sample(r_.tokens.begin(), r_.tokens.begin() + r_.effort.order_tokens);
    ZU_TRY_ASSIGN(answer_.orders, compare_orders(arbitrary, power, sample, r_.threads, r_.device));
    ZU_TRY(parting("", arbitrary, power, nullptr));
    for (size_t i = 0; i < answer_.orders.on_device.size(); ++i) {
      const OrderComparison::OnDevice& d = answer_.orders.on_device[i];
      if (d.why_not.empty())
        ZU_TRY(parting(d.name, arbitrary, power, &ops::linear_s8::foreign_pairs()[i]));
      else
        answer_.skipped.push_back(fmt::format("foreign epilogues, {}: {}", d.name, d.why_not));
    }
    return {};
  }

  Status parting(const std::string& kernels, const model::QuantizedModel& arbitrary, const model::QuantizedModel& power,
                 const ops::linear_s8::ForeignPair* pair) {
    const std::vector<std::vector<int32_t>> prompts = generation_prompts();
    Answer::Parting p{kernels, {}, {}};
    if (interrupt_requested()) return interrupted();
    progress(fmt::format("generations, arbitrary scales{}{}", kernels.empty() ? "" : ", ", kernels), 0, 2);
    ZU_TRY_ASSIGN(p.arbitrary, compare_generations(arbitrary, prompts, r_.effort.generated, r_.threads, r_.device, pair));
    progress(fmt::format("generations, power-of-two scales{}{}", kernels.empty() ? "" : ", ", kernels), 1, 2);
    ZU_TRY_ASSIGN(p.power_of_two, compare_generations(power, prompts, r_.effort.generated, r_.threads, r_.device, pair));
    answer_.partings.push_back(std::move(p));
    return {};
  }

  // Beginnings of 24 tokens, spread over the text.
  std::vector<std::vector<int32_t>> generation_prompts() const {
    std::vector<std::vector<int32_t>> prompts;
    const size_t length = 24, count = static_cast<size_t>(r_.effort.prompts), step = (r_.tokens.size() - length) / count;
    for (size_t i = 0; i < count; ++i)
      prompts.emplace_back(r_.tokens.begin() + static_cast<int64_t>(i * step), r_.tokens.begin() + static_cast<int64_t>(i * step + length));
    return prompts;
  }

  Status quality_part() {
    if (r_.reference == nullptr) {
      answer_.skipped.push_back("quality: no reference model was given (--reference)");
      return {};
    }
    ThreadPool pool(r_.threads);
    ZU_TRY_ASSIGN(const engine::FloatDecoder reference, engine::FloatDecoder::create(*r_.reference, engine::FloatDecoder::Options{}, pool));
    engine::EngineOptions options;
    options.threads = r_.threads;
    options.device = r_.device;
    options.max_rows = 256;
    options.max_context = r_.effort.window;
    options.max_total_positions = r_.effort.window;
    ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(*r_.model, options));
    const std::span<const int32_t> tokens(r_.tokens);
    engine::QualityJob job;
    job.text = {tokens.first(std::min(tokens.size(), static_cast<size_t>(r_.effort.quality_tokens))), r_.effort.window, std::nullopt};
    job.vocab = r_.model->config().vocab;
    job.candidate = engine::decode_with(*engine);
    job.reference = engine::logits_of(reference);
    const int64_t windows = job.text.windows();
    job.progress = [&](int64_t done) { progress("quality", done, windows); };
    progress("quality", 0, windows);
    ZU_TRY_ASSIGN(answer_.quality, engine::measure_quality(job, engine->kernels(), pool));
    return {};
  }

  const Request& r_;
  const Callbacks& callbacks_;
  RunConfig baseline_;
  Workload work_;
  Answer answer_;
};

}  // namespace

Result<Answer> verify(const Request& request, const Callbacks& callbacks) { return Verification(request, callbacks).run(); }

}  // namespace zeroulp::verify
