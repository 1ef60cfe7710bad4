// parse_safetensors on arbitrary bytes: it refuses in one line, or every tensor lies inside the file and together they fill it.
#include "io/safetensors.h"

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto parsed = zeroulp::io::parse_safetensors(file, "fuzz");
  if (!parsed) {
    ZU_CHECK(!parsed.error().text.empty() && parsed.error().text.find('\n') == std::string::npos);
    return 0;
  }
  uint64_t end = parsed->tensors.empty() ? size : parsed->tensors[0].offset;
  for (const auto& t : parsed->tensors) {
    ZU_CHECK(t.offset == end && t.bytes <= size - t.offset);
    ZU_CHECK(static_cast<uint64_t>(t.elements()) * static_cast<uint64_t>(zeroulp::dtype_bits(t.dtype)) == t.bytes * 8);
    end = t.offset + t.bytes;
  }
  ZU_CHECK(end == size);
  return 0;
}
