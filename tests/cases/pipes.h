// Streams in memory: what emit writes, and reading it.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "cases/check.h"

namespace zeroulp::cases {

// Reads from a string, in pieces of at most `piece` bytes.
inline ReadFn reading(std::string bytes, size_t piece = size_t{1} << 20) {
  auto state = std::make_shared<std::pair<std::string, size_t>>(std::move(bytes), 0);
  return [state, piece](std::byte* to, size_t count) -> Result<size_t> {
    const size_t n = std::min({count, piece, state->first.size() - state->second});
    std::memcpy(to, state->first.data() + state->second, n);
    state->second += n;
    return n;
  };
}

inline std::string emitted(const StreamHeader& header) {
  std::string out = encode_header(header);
  CaseDigest digest;
  each_wanted(*find_form(header.op), header, [&](Case&& c) {
    const std::string payload = encode_case(c);
    digest.add(payload);
    out += encode_frame(FrameType::kCase, payload);
    return true;
  });
  return out + encode_frame(FrameType::kEnd, encode_end(digest.end()));
}

inline Result<std::string> answered(const std::string& stream, const std::function<Result<Outputs>(const Form&, const Bound&)>& kernel) {
  std::string out;
  ZU_TRY(answer_stream(reading(stream), "cases", kernel, [&](std::string_view bytes) -> Status {
    out += bytes;
    return {};
  }));
  return out;
}

inline Result<Outputs> by_reference(const Form& form, const Bound& c) { return form.reference(c); }

}  // namespace zeroulp::cases
