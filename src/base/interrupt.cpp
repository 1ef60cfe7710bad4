#include "base/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace zeroulp {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

extern "C" void on_interrupt(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void install_interrupt_handler() {
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, on_interrupt);
  // A write beyond the limit of a file's size is an error of the write, and not the end.
  std::signal(SIGXFSZ, SIG_IGN);
}

bool interrupt_requested() { return g_interrupted != 0; }

}  // namespace zeroulp
