#include "base/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace zeroulp {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

extern "C" void on_interrupt(int) { g_interrupted = 1; }

}  // namespace

void install_interrupt_handler() {
  // Not restarted: what waits for input ends. The second signal ends the process.
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESETHAND;
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  // A write beyond the limit of a file's size is an error of the write, and not the end.
  std::signal(SIGXFSZ, SIG_IGN);
}

bool interrupt_requested() { return g_interrupted != 0; }

}  // namespace zeroulp
