// parse_json on arbitrary bytes: it answers or refuses, and what it accepts it accepts again after writing it out.
#include "io/json.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto first = zeroulp::io::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!first) {
    ZU_CHECK(!first.error().text.empty());
    return 0;
  }
  const auto again = zeroulp::io::parse_json(first->dump(), "fuzz");
  ZU_CHECK(again.has_value() && *again == *first);
  return 0;
}
