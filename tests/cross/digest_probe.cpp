// digest_probe TINY: prints what must be equal everywhere, one line each. Built by other compilers, at other optimisation levels and for other
// processors by tests/cross/build.sh; every build must print what tests/golden/digests.txt and conversions.txt hold.
//
//   family kernel digest          of the seeded tiny models' logits
//   family/profile - identity     of the tiny checkpoints of the folder TINY, converted with calibration
#include <fmt/format.h>

#include <filesystem>

#include "base/scratch_folder.h"
#include "quant/quantize.h"
#include "verify/tiny.h"

namespace {

using namespace zeroulp;
namespace fs = std::filesystem;

Status print_digests() {
  for (const std::string_view family : verify::kTinyFamilies) {
    ZU_TRY_ASSIGN(const auto model, verify::tiny_model(family));
    for (const ops::VariantStatus& v : ops::variant_status(cpu_features())) {
      if (!v.why_not.empty()) continue;
      ZU_TRY_ASSIGN(const auto log, verify::run_digests(model, verify::tiny_workload(), {.kernel = v.name}));
      fmt::print("{} {} {}\n", family, v.name, log.combined().hex());
    }
  }
  return {};
}

quant::Calibration calibration(int64_t vocab) {
  quant::Calibration c;
  c.window = 48;
  c.held_out = 48;
  int64_t value = 7;
  for (int i = 0; i < 192; ++i) c.tokens.push_back(static_cast<int32_t>(value = (value * 181 + 97) % vocab));
  return c;
}

// GPTQ everywhere; smoothing, absorbed mantissas and measured widths where the profile has them.
Status print_conversions(const fs::path& tiny, const fs::path& scratch) {
  for (const char* family : {"llama3", "qwen2", "qwen3"}) {
    ZU_TRY_ASSIGN(const auto checkpoint, model::Checkpoint::open(tiny / family));
    for (const std::string profile : {"w8a8-po2", "w8a15-po2", "w8a15-free", "both-po2"}) {
      quant::Job job;
      ZU_TRY_ASSIGN(job.options, quant::profile_options(profile, ""));
      job.options.gptq = true;
      if (profile == "w8a15-free") job.options.budget = 0.02;
      job.calibration = calibration(checkpoint.config().vocab);
      if (!job.options.budget) job.calibration.held_out = 0;
      job.out = scratch / family / profile;
      fs::create_directories(job.out.parent_path());
      ZU_TRY_ASSIGN(const auto outcome, quant::quantize(checkpoint, job));
      fmt::print("{}/{} - {}\n", family, profile, outcome.identity);
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const ScratchFolder scratch;
  if (!scratch.made()) return 3;
  Status status = print_digests();
  if (status) status = print_conversions(argv[1], scratch.path());
  if (!status) fmt::print(stderr, "digest_probe: {}\n", status.error().text);
  return status ? 0 : static_cast<int>(status.error().code);
}
