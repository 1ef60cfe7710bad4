// parse_gguf on arbitrary bytes: it refuses in one line, or every tensor lies inside the file and can be dequantised.
#include "io/gguf.h"

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto parsed = zeroulp::io::parse_gguf(file, "fuzz");
  if (!parsed) {
    ZU_CHECK(!parsed.error().text.empty() && parsed.error().text.find('\n') == std::string::npos);
    return 0;
  }
  std::vector<float> values;
  for (const auto& t : parsed->tensors) {
    ZU_CHECK(t.data.empty() || (t.data.data() >= file.data() && t.data.data() + t.data.size() <= file.data() + size));
    values.resize(static_cast<size_t>(t.elements()));
    ZU_CHECK(values.size() / t.type->block_elements * t.type->block_bytes == t.data.size());
    zeroulp::io::gguf_dequantise(*t.type, t.data.data(), values.size(), values.data());
  }
  for (const auto& [key, value] : parsed->metadata) {
    (void)value.integer();
    (void)value.number();
    (void)value.integer_at(value.count);
  }
  return 0;
}
