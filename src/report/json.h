// The JSON of one command: a fixed envelope around what the command found. Equal runs give equal bytes, apart from "volatile".
//
//   {"schema": "zeroulp.verify/1", "zeroulp": {version, commit, compiler}, "machine": {cpu, threads}, ..., "volatile": {time, elapsed_s}}
//
// The envelope sorts as the rest does; schemas change by additions only, else the number after the slash grows.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace zeroulp::report {

using Json = nlohmann::json;

class Report {
 public:
  // Starts the clock.
  explicit Report(std::string_view verb, int schema_version = 1);

  Json body;  // the envelope without "volatile"; commands add their own keys beside it

  double elapsed_s() const;

  // The body with "volatile" filled in: the time now (UTC) and the seconds since the start.
  Json finished() const;

  // finished() to a file, whole or not at all, or to standard output for "-".
  Status write(const std::string& path, bool force) const;

 private:
  std::chrono::steady_clock::time_point started_;
};

// Keys sorted, floats in their shortest form that reads back equal, non-finite numbers as the strings "nan", "inf", "-inf"; the
// outermost braces opened, what is short below them on one line. Ends with a newline.
std::string json_text(const Json& value);

// `text` to a file, whole or not at all, or to standard output for "-".
Status write_output(const std::string& path, std::string_view text, bool force);

}  // namespace zeroulp::report
