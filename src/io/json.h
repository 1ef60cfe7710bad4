// JSON from files that are not trusted: duplicate keys, depth and size are refused with the place named.
// Declares the value type only; a source file that looks into values includes <nlohmann/json.hpp> itself.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"

namespace zeroulp::io {

using Json = nlohmann::json;

struct JsonLimits {
  int max_depth = 64;
  uint64_t max_bytes = 256ull << 20;  // tokenizer.json of large vocabularies is about 20 MB
};

// Strict RFC 8259 in UTF-8. `name` opens the error line. A key that stands twice in one object is an error.
Result<Json> parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {});
Result<Json> read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

}  // namespace zeroulp::io
