// Typed access to JSON that is not trusted. Every error line names the file, the path of the key, what stands there and what should.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/json.h"

namespace zeroulp::io {

// One JSON object, which must outlive this. A key whose value is null is absent.
class Fields {
 public:
  // Refuses what is not an object. `name` opens error lines: the file, or file and path ("zeroulp.json: config").
  static Result<Fields> of(const Json& json, std::string name);

  bool has(const char* key) const;
  const Json& at(const char* key) const;  // of a key that is there
  const Json& json() const { return *json_; }
  const std::string& name() const { return name_; }
  // "NAME: KEY: TEXT", exit code 3.
  Error error(std::string_view key, std::string_view text) const;

  Result<int64_t> integer(const char* key, int64_t min, int64_t max) const;
  Result<int64_t> integer_or(const char* key, int64_t absent, int64_t min, int64_t max) const;
  Result<double> number(const char* key, double min, double max) const;
  Result<double> positive(const char* key, double max) const;
  Result<double> positive_or(const char* key, double absent, double max) const;
  Result<bool> boolean(const char* key) const;
  Result<bool> boolean_or(const char* key, bool absent) const;
  Result<std::string> string(const char* key) const;
  // A decimal number in a string, for what JSON readers that know only doubles would bend.
  Result<uint64_t> uint64(const char* key) const;
  Result<Fields> object(const char* key) const;
  Result<const Json*> array(const char* key) const;
  Result<std::vector<int64_t>> integers(const char* key, int64_t min, int64_t max) const;
  Result<std::vector<std::string>> strings(const char* key) const;

 private:
  Fields(const Json& json, std::string name) : json_(&json), name_(std::move(name)) {}
  Result<const Json*> present(const char* key) const;

  const Json* json_;
  std::string name_;
};

// The same for a value outside an object; `what` opens the error line. A number that is written with a fraction is no integer.
Result<int64_t> integer_of(const Json& value, std::string_view what, int64_t min, int64_t max);
Result<std::vector<int64_t>> integers_of(const Json& value, std::string_view what, int64_t min, int64_t max);

// A value as it goes into an error line: on one line, at most 60 bytes.
std::string shown(const Json& value);

}  // namespace zeroulp::io
