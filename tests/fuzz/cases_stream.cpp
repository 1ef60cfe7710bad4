// A stream of cases and answers of arbitrary bytes: judged, or refused with a line. What could be decoded is encoded as the same bytes again. The
// digest of the end frame is not made to fit: a frame counts when it is read, before the end.
#include "cases/check.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroulp;
  size_t at = 0;
  const cases::ReadFn read = [&](std::byte* to, size_t count) -> Result<size_t> {
    const size_t n = std::min({count, size - at, size_t{1} << 16});
    std::memcpy(to, data + at, n);
    at += n;
    return n;
  };
  // Frames as they are, first without the contract's own cases between: those would refuse every changed one at once.
  if (auto reader = cases::StreamReader::open(read, "fuzz")) {
    while (true) {
      const auto frame = reader->next();
      if (!frame || !*frame) break;
      const std::string& payload = (*frame)->payload;
      if ((*frame)->type == cases::FrameType::kCase) {
        const auto c = cases::decode_case(payload);
        if (!c) continue;
        ZU_CHECK(cases::encode_case(*c) == payload);
        if (const cases::Form* form = cases::find_form(c->op))
          if (const auto bound = cases::bind(*form, *c)) {
            int64_t elements = 0;
            for (const cases::Spec& s : c->outputs) elements += s.elements();
            if (elements < 65536) form->reference(*bound);
          }
      } else if ((*frame)->type == cases::FrameType::kAnswer) {
        if (const auto answer = cases::decode_answer(payload)) ZU_CHECK(cases::encode_answer(*answer) == payload);
      }
    }
  }
  at = 0;
  const auto result = cases::check_stream(read, "fuzz");
  if (!result) {
    ZU_CHECK(result.error().text.find('\n') == std::string::npos);
    ZU_CHECK(result.error().code == ExitCode::kBadInput);
  }
  return 0;
}
