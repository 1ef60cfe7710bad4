// A few threads for one piece of work that needs all of them: ranks that wait for each other.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace zeroulp {

// Runs body(0) to body(count - 1) at the same time, the first on the calling thread, and returns when all have ended. Where a thread cannot
// be made none begins, since the others would wait for it for ever: std::system_error. A body must not throw.
template <class Body>
void run_together(size_t count, const Body& body) {
  enum : int { kWait, kGo, kGiveUp };
  std::atomic<int> gate = kWait;
  std::vector<std::thread> others;
  const auto open_gate = [&](int how) {
    gate = how;
    gate.notify_all();
  };
  try {
    others.reserve(count);
    for (size_t i = 1; i < count; ++i)
      others.emplace_back([&, i] {
        gate.wait(kWait);
        if (gate == kGo) body(i);
      });
  } catch (...) {
    open_gate(kGiveUp);
    for (std::thread& t : others) t.join();
    throw;
  }
  open_gate(kGo);
  body(size_t{0});
  for (std::thread& t : others) t.join();
}

}  // namespace zeroulp
