#include "base/threads.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace zeroulp {
namespace {

TEST(ThreadPool, EveryIndexOnceAndPartitionDependsOnSizesAlone) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t grain : {1, 3, 16}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        std::vector<int> owner(static_cast<size_t>(count)), again(static_cast<size_t>(count));
        const auto fill = [&](std::vector<int>& out) {
          pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int worker) {
            EXPECT_EQ(begin % grain, 0);
            for (int64_t i = begin; i < end; ++i) out[static_cast<size_t>(i)] = worker, ++seen[static_cast<size_t>(i)];
          });
        };
        fill(owner);
        fill(again);
        EXPECT_EQ(owner, again);
        for (auto& s : seen) EXPECT_EQ(s, 2);
      }
    }
  }
}

// More threads than any machine of the tests has cores, pauses that let everyone fall asleep between jobs, and bodies of very unequal
// length: a wake-up that is lost would hang.
TEST(ThreadPool, NoWakeUpIsLostOnAnOversubscribedMachine) {
  ThreadPool pool(9);
  std::atomic<int64_t> sum = 0;
  for (int job = 0; job < 500; ++job) {
    if (job % 50 == 7) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.parallel_for(18, 1, [&](int64_t begin, int64_t end, int worker) {
      if ((worker + job) % 9 == 0 && job % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    ASSERT_EQ(sum, 153 * (job + 1));
  }
}

// Returns once the thread has slept for some milliseconds, however slow or busy the machine is.
void until_asleep(pid_t thread) {
  for (int times = 0; times < 3;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::string stat;
    std::getline(std::ifstream(fmt::format("/proc/self/task/{}/stat", thread)), stat);
    const size_t state = stat.rfind(')') + 2;
    times = state < stat.size() && stat[state] == 'S' ? times + 1 : 0;
  }
}

TEST(ThreadPool, WaitingIsShortSpinningThenSleep) {
  std::atomic<uint32_t> word = 0;
  SpinThenSleep gate(word);
  int spins = SpinThenSleep::kMostSpins;
  for (uint32_t turn = 0; turn < 12; ++turn) {
    const int before = spins;
    std::thread late([&, waiting = gettid()] {
      until_asleep(waiting);
      ++word;
      gate.wake();
    });
    gate.wait_while(turn, spins);
    late.join();
    EXPECT_EQ(spins, std::max(before / 2, SpinThenSleep::kLeastSpins)) << "a wait that slept must spin less next time";
  }
  EXPECT_EQ(spins, SpinThenSleep::kLeastSpins);
  gate.wait_while(word - 1, spins);
  EXPECT_EQ(spins, 2 * SpinThenSleep::kLeastSpins) << "a wait that was short must spin more next time";
}

#if defined(__x86_64__)
TEST(ThreadPool, BodiesKeepSubnormalsThoughTheHostFlushesThem) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // FTZ and DAZ, as a host library compiled with fast-math sets them
  ThreadPool pool(3);
  std::atomic<int> kept = 0, bodies = 0;
  pool.parallel_for(3, 1, [&](int64_t, int64_t, int) {
    volatile float tiny = 1e-38f;
    volatile float half = tiny * 0.25f;
    kept += half != 0.0f;
    ++bodies;
  });
  EXPECT_EQ(kept, bodies);
  EXPECT_EQ(_mm_getcsr() & 0x8040, 0x8040u) << "the host's control must be restored";
  _mm_setcsr(before);
}
#endif

}  // namespace
}  // namespace zeroulp
