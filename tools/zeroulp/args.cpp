#include "args.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace zeroulp::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 holds and was checked; 1 ran, the answer is no; 2 usage; 3 bad input; 4 required device or kernel absent,\n"
    "or nothing was checked; 5 internal error; 130 interrupted.";

}  // namespace

struct Args::Impl {
  Impl(std::string name, const std::string& summary) : verb(std::move(name)), app(summary, "zeroulp " + verb) {}
  std::string verb;
  CLI::App app;
};

Args::Args(std::string verb, std::string summary, std::vector<std::string> examples)
    : impl_(std::make_unique<Impl>(std::move(verb), summary)) {
  std::string footer = examples.empty() ? "" : "Examples:\n";
  for (const std::string& e : examples) footer += "  " + e + "\n";
  impl_->app.footer(footer + "\n" + kExitCodes);
  impl_->app.get_formatter()->column_width(34);
}
Args::~Args() = default;

void Args::positional(const std::string& name, std::string& value, const std::string& help, bool required) {
  impl_->app.add_option(name, value, help)->required(required);
}
void Args::positional(const std::string& name, std::vector<std::string>& values, const std::string& help, bool required) {
  impl_->app.add_option(name, values, help)->required(required);
}
void Args::option(const std::string& name, std::string& value, const std::string& help) {
  impl_->app.add_option(name, value, help)->capture_default_str();
}
void Args::option(const std::string& name, int64_t& value, const std::string& help, int64_t min, int64_t max) {
  impl_->app.add_option(name, value, help)->check(CLI::Range(min, max))->capture_default_str();
}
void Args::option(const std::string& name, uint64_t& value, const std::string& help) {
  // CLI11 lets signs and numbers above 2^64 wrap.
  const auto whole = [](const std::string& text) -> std::string {
    uint64_t parsed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    return error == std::errc() && end == text.data() + text.size() ? "" : "'" + text + "' is not a whole number from 0 to 2^64 - 1";
  };
  impl_->app.add_option(name, value, help)->check(CLI::Validator(whole, "UINT64"))->capture_default_str();
}
void Args::option(const std::string& name, double& value, const std::string& help, double min, double max) {
  // A NaN is inside every range to a check that asks for "outside".
  const auto number = [](const std::string& text) -> std::string {
    return std::isnan(std::strtod(text.c_str(), nullptr)) ? "'" + text + "' is not a number" : "";
  };
  impl_->app.add_option(name, value, help)->check(CLI::Validator(number, ""))->check(CLI::Range(min, max))->capture_default_str();
}
void Args::option(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  impl_->app.add_option(name, values, help)->allow_extra_args(false);
}
void Args::choice(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
                  const std::string& help) {
  impl_->app.add_option(name, value, help)->check(CLI::IsMember(allowed))->capture_default_str();
}
void Args::flag(const std::string& name, bool& value, const std::string& help) { impl_->app.add_flag(name, value, help); }
bool Args::given(const std::string& name) const { return impl_->app.count(name) > 0; }

int Args::parse(int argc, char** argv) {
  try {
    impl_->app.parse(argc, argv);
    return -1;
  } catch (const CLI::Success&) {
    fmt::print("{}", impl_->app.help());
    return 0;
  } catch (const CLI::ParseError& e) {
    return fail(impl_->verb, usage_error(fmt::format("{} (zeroulp {} --help shows the options)", e.what(), impl_->verb)));
  }
}

void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

int fail(const std::string& verb, const Error& error) {
  std::fflush(stdout);
  say(fmt::format("zeroulp {}: {}", verb, error.text));
  return static_cast<int>(error.code);
}

}  // namespace zeroulp::cli
