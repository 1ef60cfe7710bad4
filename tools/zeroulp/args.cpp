#include "args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "engine/mpi_exchange.h"

namespace zeroulp::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 holds and was checked; 1 ran, the answer is no; 2 usage; 3 bad input; 4 required device or kernel absent,\n"
    "or nothing was checked; 5 internal error; 130 interrupted.";

// Whether writing to `output` would take something of `input` away: the same place, a folder around it, or a file inside it that exists.
// Names that lead to one place by way of links or ".." are one.
bool would_replace_input(const std::filesystem::path& output, const std::filesystem::path& input) {
  std::error_code ec;
  const std::filesystem::path from = std::filesystem::canonical(input, ec);
  if (ec) return false;  // no such input: someone else says so
  const std::filesystem::path to = std::filesystem::weakly_canonical(std::filesystem::absolute(output, ec), ec);
  if (ec) return false;
  const auto inside = [](const std::filesystem::path& inner, const std::filesystem::path& outer) {
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
  };
  return inside(from, to.has_filename() ? to : to.parent_path()) || (inside(to, from) && std::filesystem::exists(to, ec));
}

}  // namespace

struct Args::Impl {
  Impl(std::string name, const std::string& summary) : verb(std::move(name)), app(summary, "zeroulp " + verb) {}

  // `name` may have both spellings, "-o,--out".
  bool given(const std::string& name) const { return app.count(name.substr(name.rfind(',') + 1)) > 0; }
  std::vector<std::string> given_of(const std::vector<std::string>& names) const {
    std::vector<std::string> out;
    std::copy_if(names.begin(), names.end(), std::back_inserter(out), [&](const std::string& n) { return given(n); });
    return out;
  }
  Status check_rules() const {
    for (const auto& rule : rules) ZU_TRY(rule());
    return {};
  }
  Status check_paths() const;

  struct Path {
    std::string name;
    const std::string* value;
    bool folder;
    const std::string* like = nullptr;  // given: a folder if that is one
    bool is_folder() const { return like == nullptr ? folder : std::filesystem::is_directory(*like); }
  };
  std::string verb;
  CLI::App app;
  std::vector<std::function<Status()>> rules;
  std::vector<Path> inputs, outputs;
  bool has_force = false;
};

Status Args::Impl::check_paths() const {
  const bool force = has_force && given("--force");
  std::set<std::filesystem::path> seen;
  bool replaceable = false;
  for (const auto* list : {&inputs, &outputs})
    for (const Path& p : *list)
      if (given(p.name) && p.value->empty()) return usage_error(fmt::format("{} needs a name that is not empty", p.name));
  for (const Path& o : outputs) {
    if (!given(o.name)) continue;
    const std::string& path = *o.value;
    if (!seen.insert(std::filesystem::path(path).lexically_normal()).second)
      return usage_error(fmt::format("{} and another output are both '{}'; give them different names", o.name, path));
    const bool streams = o.name == "--json" || o.name == "--record";
    if (path == "-" && !streams) return usage_error(fmt::format("{} does not go to standard output; give a name (./- for one called -)", o.name));
    replaceable |= path != "-";
    if (path == "-") continue;
    for (const Path& i : inputs)
      if (force && i.name != o.name && given(i.name) && would_replace_input(path, *i.value))
        return usage_error(fmt::format("{}: writing there would replace what {} ({}) is; give another name", path, i.name, *i.value));
    ZU_TRY(o.is_folder() ? check_folder_creatable(path, force) : check_file_creatable(path, force));
  }
  if (force && !replaceable) return usage_error("--force has no effect without an output that is a file; leave it out");
  return {};
}

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
  impl_->inputs.push_back({name, &value, false});
}
void Args::positional(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  impl_->app.add_option(name, values, help)->required();
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
bool Args::given(const std::string& name) const { return impl_->given(name); }

void Args::input(const std::string& name, std::string& value, const std::string& help) {
  option(name, value, help);
  impl_->inputs.push_back({name, &value, false});
}
void Args::output(const std::string& name, std::string& value, const std::string& help) {
  option(name, value, help);
  impl_->outputs.push_back({name, &value, false});
}
void Args::output_folder(const std::string& name, std::string& value, const std::string& help) {
  positional(name, value, help);
  impl_->outputs.push_back({name, &value, true});
}
void Args::output_like(const std::string& name, std::string& value, const std::string& source, const std::string& help) {
  positional(name, value, help);
  impl_->outputs.push_back({name, &value, false, &source});
}
void Args::force(bool& value, const std::string& help) {
  flag("--force", value, help);
  impl_->has_force = true;
}

void Args::needs(const std::vector<std::string>& names, const std::string& other) {
  needs(names, [impl = impl_.get(), other] { return impl->given(other); }, other);
}
void Args::needs(const std::vector<std::string>& names, std::function<bool()> condition, const std::string& what) {
  impl_->rules.push_back([impl = impl_.get(), names, condition = std::move(condition), what]() -> Status {
    const auto given = impl->given_of(names);
    if (given.empty() || condition()) return {};
    return usage_error(fmt::format("{} has no effect without {}; leave it out, or add that", given[0], what));
  });
}
void Args::excludes(const std::vector<std::string>& names, const std::vector<std::string>& others) {
  impl_->rules.push_back([impl = impl_.get(), names, others]() -> Status {
    const auto a = impl->given_of(names), b = impl->given_of(others);
    if (a.empty() || b.empty()) return {};
    return usage_error(fmt::format("{} has no effect with {}; leave one of them out", a[0], b[0]));
  });
}
void Args::exactly_one(const std::vector<std::string>& names, const std::string& instead) {
  impl_->rules.push_back([impl = impl_.get(), names, instead]() -> Status {
    const size_t given = impl->given_of(names).size();
    if (given == 1 || (given == 0 && !instead.empty() && !impl->given_of({instead}).empty())) return {};
    return usage_error(fmt::format("give exactly one of {}{}{}", fmt::join(names, ", "), instead.empty() ? "" : ", or ", instead));
  });
}

int Args::parse(int argc, char** argv) {
  try {
    impl_->app.parse(argc, argv);
    Status status = impl_->check_rules();
    if (status) status = impl_->check_paths();
    return status ? -1 : fail(impl_->verb, status.error());
  } catch (const CLI::Success&) {
    fmt::print("{}", impl_->app.help());
    return 0;
  } catch (const CLI::ParseError& e) {
    return fail(impl_->verb, usage_error(fmt::format("{} (zeroulp {} --help shows the options)", e.what(), impl_->verb)));
  }
}

void say(const std::string& line) { std::fputs((on_one_line(line) + "\n").c_str(), stderr); }
void tell(const std::string& line) { fmt::print("{}\n", on_one_line(line)); }

int fail(const std::string& verb, const Error& what) {
  std::fflush(stdout);
  const Error error = interrupt_requested() ? interrupted() : what;  // a call that the signal cut short fails with words of its own
  if (engine::launch_rank() == 0)
    say(fmt::format("zeroulp {}: {}", verb, error.text));
  else
    std::this_thread::sleep_for(std::chrono::seconds(2));  // the launcher ends all processes when one fails: the first must have spoken
  return static_cast<int>(error.code);
}

}  // namespace zeroulp::cli
