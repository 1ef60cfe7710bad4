// Command lines. CLI11 stands behind this, in args.cpp alone: its header costs seconds per translation unit.
#pragma once

#include <cstdint>
#include <functional>
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
  void positional(const std::string& name, std::vector<std::string>& values, const std::string& help);  // one or more
  // `name` as "--seed" or "-q,--quiet".
  void option(const std::string& name, std::string& value, const std::string& help);
  void option(const std::string& name, int64_t& value, const std::string& help, int64_t min, int64_t max);
  void option(const std::string& name, uint64_t& value, const std::string& help);
  void option(const std::string& name, double& value, const std::string& help, double min, double max);
  void option(const std::string& name, std::vector<std::string>& values, const std::string& help);  // may be repeated
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& allowed, const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);
  // A file or folder that the verb reads: an empty name is refused.
  void input(const std::string& name, std::string& value, const std::string& help);
  // A file ("-": standard output, for --json and --record) or folder that the verb writes at its end. parse() refuses one that could not be written then: an empty
  // name, one that exists (unless --force is given), a folder that is not there or not writable, two outputs of one name.
  void output(const std::string& name, std::string& value, const std::string& help);
  void output_folder(const std::string& name, std::string& value, const std::string& help);
  // A folder if `source` is one, otherwise a file.
  void output_like(const std::string& name, std::string& value, const std::string& source, const std::string& help);
  // --force. Without an output_folder it needs an output that is a file.
  void force(bool& value, const std::string& help);
  bool given(const std::string& name) const;

  // Rules, kept by parse(): an option that would have no effect is a usage error, and not ignored.
  void needs(const std::vector<std::string>& names, const std::string& other);
  void needs(const std::vector<std::string>& names, std::function<bool()> condition, const std::string& what);
  void excludes(const std::vector<std::string>& names, const std::vector<std::string>& others);
  // With `instead` given, none is fine too.
  void exactly_one(const std::vector<std::string>& names, const std::string& instead = "");

  // Parses argv[1..]; argv[0] is the verb. Returns the exit code to end with at once (help: 0, usage error: 2, an output that cannot be
  // written: 3), or -1 to go on.
  int parse(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A line on standard error, one whatever names are in it (on_one_line). That it cannot be written changes nothing: the exit code speaks too.
void say(const std::string& line);

// A line of the result on standard output, likewise one.
void tell(const std::string& line);

// Prints "zeroulp VERB: text" to stderr and gives the exit code. Of the processes of an MPI launch, which all meet the same error, the first
// speaks.
int fail(const std::string& verb, const Error& error);

}  // namespace zeroulp::cli
