#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

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
