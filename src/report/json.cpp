#include "report/json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <thread>

#include "base/cpu.h"
#include "base/file.h"
#include "commit.h"

namespace zeroulp::report {
namespace {

constexpr size_t kLineWidth = 160;

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

std::string float_text(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value < 0 ? "\"-inf\"" : "\"inf\"";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // A float stays a float for readers that tell the two apart.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string scalar_text(const Json& value) {
  if (value.is_number_float()) return float_text(value.get<double>());
  // Strings that are not UTF-8 (names out of a broken file) must not end the report.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string key_text(const std::string& key) { return scalar_text(Json(key)) + ": "; }

// On one line. Stops soon after `limit` characters, for callers that only ask whether it fits.
void append_line(std::string& out, const Json& value, size_t limit) {
  if (!value.is_structured()) {
    out += scalar_text(value);
    return;
  }
  out += value.is_array() ? '[' : '{';
  for (auto it = value.begin(); it != value.end() && out.size() <= limit; ++it) {
    if (it != value.begin()) out += ", ";
    if (value.is_object()) out += key_text(it.key());
    append_line(out, *it, limit);
  }
  out += value.is_array() ? ']' : '}';
}

// An array of numbers or strings stays one line at any length; an item per line would only be longer to scroll.
bool is_scalar_array(const Json& value) {
  return value.is_array() && std::none_of(value.begin(), value.end(), [](const Json& item) { return item.is_structured(); });
}

void append(std::string& out, const Json& value, size_t indent) {
  const size_t limit = !value.is_structured() || is_scalar_array(value) ? SIZE_MAX : kLineWidth - std::min(indent, kLineWidth);
  std::string line;
  append_line(line, value, limit);
  if (line.size() <= limit && (indent > 0 || limit == SIZE_MAX)) {
    out += line;
    return;
  }
  const bool array = value.is_array();
  out += array ? "[\n" : "{\n";
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (it != value.begin()) out += ",\n";
    out.append(indent + 2, ' ');
    if (!array) out += key_text(it.key());
    append(out, *it, indent + 2);
  }
  out += value.empty() ? "" : "\n";
  out.append(indent, ' ');
  out += array ? ']' : '}';
}

}  // namespace

Report::Report(std::string_view verb, int schema_version) : started_(std::chrono::steady_clock::now()) {
  body["schema"] = fmt::format("zeroulp.{}/{}", verb, schema_version);
  body["zeroulp"] = {{"version", ZEROULP_VERSION}, {"commit", kCommit}, {"compiler", compiler()}};
  body["machine"] = {{"cpu", cpu_features().model}, {"threads", std::thread::hardware_concurrency()}};
}

double Report::elapsed_s() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }

Json Report::finished() const {
  Json out = body;
  const auto milliseconds = static_cast<int64_t>(elapsed_s() * 1000 + 0.5);
  out["volatile"] = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                     {"elapsed_s", static_cast<double>(milliseconds) / 1000}};
  return out;
}

Status Report::write(const std::string& path, bool force) const { return write_output(path, json_text(finished()), force); }

std::string json_text(const Json& value) {
  std::string out;
  append(out, value, 0);
  return out + '\n';
}

Status write_output(const std::string& path, std::string_view text, bool force) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      return bad_input("cannot write to standard output");
    return {};
  }
  ZU_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path, force));
  ZU_TRY(file.write(text));
  return file.commit();
}

}  // namespace zeroulp::report
