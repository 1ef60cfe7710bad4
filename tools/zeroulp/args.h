// Command lines. CLI11 stands behind this, in args.cpp alone: its header costs seconds per translation unit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace zeroulp::cli {

// One verb's options. Bind variables (their values are the defaults shown in the help), then parse().
class Args {
 public:
  // `examples`: up to three runnable lines, shown at the end of the help.
  Args(std::string verb, std::string summary, std::vector<std::string> examples);
  ~Args();

  void positional(const std::string& name, std::string& value, const std::string& help, bool required = true);
  void positional(const std::string& name, std::vector<std::string>& values, const std::string& help, bool required = true);
  // `name` as "--seed" or "-q,--quiet".
  void option(const std::string& name, std::string& value, const std::string& help);
  void option(const std::string& name, int64_t& value, const std::string& help, int64_t min, int64_t max);
  void option(const std::string& name, uint64_t& value, const std::string& help);
  void option(const std::string& name, double& value, const std::string& help, double min, double max);
  void option(const std::string& name, std::vector<std::string>& values, const std::string& help);  // may be repeated
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& allowed, const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);
  bool given(const std::string& name) const;

  // Parses argv[1..]; argv[0] is the verb. Returns the exit code to end with at once (help: 0, usage error: 2), or -1 to go on.
  int parse(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A line on standard error. That it cannot be written changes nothing: the exit code speaks too.
void say(const std::string& line);

// Prints "zeroulp VERB: text" to stderr and gives the exit code.
int fail(const std::string& verb, const Error& error);

}  // namespace zeroulp::cli
