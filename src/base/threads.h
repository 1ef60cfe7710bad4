// A pool of threads with a fixed partition by index: which thread computes what depends on the sizes alone, never on arrival.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace zeroulp {

class ThreadPool {
 public:
  // threads >= 1 counts the caller, which always takes part.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(begin, end, worker) on each non-empty part of [0, count), parts being multiples of `grain` long (the last may be
  // shorter). Returns when all have ended. Every body runs under FpEnvScope. Not reentrant; one caller at a time.
  using Body = std::function<void(int64_t begin, int64_t end, int worker)>;
  void parallel_for(int64_t count, int64_t grain, const Body& body);

 private:
  struct Job {
    const Body* body = nullptr;
    int64_t count = 0, grain = 1;
  };
  void work(int worker);
  void run_part(const Job& job, int worker) const;

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  Job job_;
  uint64_t generation_ = 0;
  int pending_ = 0;
  bool stopping_ = false;
};

}  // namespace zeroulp
