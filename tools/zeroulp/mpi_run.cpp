#include "mpi_run.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/scratch_folder.h"
#include "engine/mpi_exchange.h"
#include "io/json.h"
#include "report/json.h"
#include "verify/verify.h"

extern char** environ;

namespace zeroulp::cli {
namespace fs = std::filesystem;
namespace {

// Runs a command and gives its exit code; its output joins our standard error.
int run_command(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) < 0) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "";
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    if (::access((rest.substr(0, colon) + "/" + program).c_str(), X_OK) == 0) return true;
    rest.erase(0, std::min(rest.size(), colon + 1));
  }
  return false;
}

}  // namespace

std::string why_no_mpi() {
  if (!engine::built_with_mpi()) return "this build has no MPI";
  return on_path("mpirun") ? "" : "there is no mpirun on the PATH";
}

Result<verify::DigestLog> digest_under_mpi(const std::string& model_folder, const verify::Workload& workload, int ranks) {
  const ScratchFolder scratch;
  if (!scratch.made()) return unavailable("cannot make a temporary folder for the MPI run");
  const std::string input = (scratch.path() / "workload.json").string(), output = (scratch.path() / "log.json").string();
  ZU_TRY(report::write_output(input, workload_to_json(workload).dump(), false));
  std::error_code ec;
  const std::string self = fs::read_symlink("/proc/self/exe", ec).string();
  std::vector<std::string> command = {"mpirun", "--oversubscribe", "-n", std::to_string(ranks), self, "digest", model_folder,
                                      "--workload", input, "--json", output};
  if (::geteuid() == 0) command.insert(command.begin() + 1, "--allow-run-as-root");
  if (const int code = run_command(command); code != 0)
    return unavailable(fmt::format("{} ended with exit code {}", fmt::join(command, " "), code));
  ZU_TRY_ASSIGN(const io::Json json, io::read_json_file(output));
  return verify::DigestLog::from_json(json, output);
}

}  // namespace zeroulp::cli
