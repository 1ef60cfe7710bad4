// Ctrl-C as a flag that long loops look at, so that they can end cleanly.
#pragma once

namespace zeroulp {

// After this, the first SIGINT or SIGTERM only sets the flag; a second one ends the process at once.
void install_interrupt_handler();
bool interrupt_requested();

}  // namespace zeroulp
