// A run log of arbitrary bytes: read whole, or refused with a line. What was read is written again as the same bytes, and no list is longer
// than the bytes that were there. The seal is made to fit, or nothing behind it would ever be reached.
#include "verify/run_log.h"

#include "base/check.h"
#include "num/seal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroulp;
  const std::string_view given(reinterpret_cast<const char*>(data), size);
  for (const bool sealed : {false, true}) {
    const std::string bytes = sealed ? std::string(given) + num::sha256(given) : std::string(given);
    const auto log = verify::decode_run_log(bytes, std::nullopt, "fuzz");
    if (!log) {
      ZU_CHECK(log.error().text.find('\n') == std::string::npos);
      ZU_CHECK(log.error().code == ExitCode::kBadInput);
      continue;
    }
    ZU_CHECK((log->log.digests.size() + static_cast<size_t>(log->layers) * log->residuals.size()) * 16 <= bytes.size() && log->workload.prompts.size() * 8 <= bytes.size());
    const std::string again = verify::encode_run_log(*log, std::nullopt);
    const auto same = verify::decode_run_log(again, std::nullopt, "again");
    ZU_CHECK(same && verify::encode_run_log(*same, std::nullopt) == again && same->log.digests == log->log.digests && same->residuals == log->residuals);
  }
  return 0;
}
