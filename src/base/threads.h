// A pool of threads with a fixed partition by index: what the parts are depends on the sizes alone. Who computes a part may depend on
// arrival: the caller takes over parts that no worker has begun when its own is done, so that a busy machine costs little more than
// running alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

namespace zeroulp {

// Waits for a word that another thread changes: spins, since the other is usually microseconds away, then sleeps. Each wait that spun
// in vain halves the next one's spinning and each that did not doubles it, so that more threads than cores do not burn each other's time.
class SpinThenSleep {
 public:
  explicit SpinThenSleep(std::atomic<uint32_t>& word) : word_(word) {}
  // Returns once the word is not `old`. `spins` belongs to the waiting thread.
  void wait_while(uint32_t old, int& spins);
  // To be called after every change that ends a wait. Does nothing, cheaply, when no one sleeps.
  void wake();

  static constexpr int kMostSpins = 4096, kLeastSpins = 512;  // 4096 pauses are 50 to 200 us on x86-64

 private:
  std::atomic<uint32_t>& word_;
  std::atomic<int> sleepers_ = 0;
};

class ThreadPool {
 public:
  // threads >= 1 counts the caller, which always takes part. std::system_error when so many cannot be had.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Runs body(begin, end, part) on each non-empty part of [0, count), at most size() of them, each a multiple of `grain` long (the last
  // may be shorter). Returns when all have ended. Every body runs under FpEnvScope. Allocates nothing. Not reentrant; one caller at a time.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    const auto call = [](const void* b, int64_t begin, int64_t end, int part) { (*static_cast<const Body*>(b))(begin, end, part); };
    run({&body, call, count, grain});
  }

 private:
  struct Job {
    const void* body = nullptr;
    void (*call)(const void* body, int64_t begin, int64_t end, int part) = nullptr;
    int64_t count = 0, grain = 1;
  };
  struct alignas(64) Part {
    std::atomic<uint32_t> claimed = 0;  // the last job whose part this is that someone began
    std::thread worker;
  };
  void run(const Job& job);
  void work(int part);
  void stop();
  // True for the one thread that may run the part in this job.
  bool claim(int part, uint32_t generation);
  void run_part(int part);
  int workers() const { return size_ - 1; }

  int size_;
  std::unique_ptr<Part[]> parts_;  // [size_]; the first is the caller's
  Job job_;                        // does not change while a part of it is claimed and not done
  // Each on a cache line of its own: the workers watch the first, the caller the second.
  alignas(64) std::atomic<uint32_t> generation_ = 0;
  SpinThenSleep start_{generation_};
  alignas(64) std::atomic<uint32_t> pending_ = 0;
  SpinThenSleep done_{pending_};
  int caller_spins_ = SpinThenSleep::kMostSpins;
  std::atomic<bool> stopping_ = false;
};

}  // namespace zeroulp
