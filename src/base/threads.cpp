#include "base/threads.h"

#include <algorithm>

#include "base/check.h"
#include "base/fp_env.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace zeroulp {
namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void SpinThenSleep::wait_while(uint32_t old, int& spins) {
  for (int i = 0; i < spins; ++i) {
    if (word_.load(std::memory_order_acquire) != old) {
      spins = std::min(2 * spins, kMostSpins);
      return;
    }
    pause();
  }
  spins = std::max(spins / 2, kLeastSpins);
  // Either this thread is counted before wake() looks, or it sees the change: both sides' accesses are in one total order.
  sleepers_.fetch_add(1);
  while (word_.load() == old) word_.wait(old);
  sleepers_.fetch_sub(1);
}

void SpinThenSleep::wake() {
  if (sleepers_.load() != 0) word_.notify_all();
}

ThreadPool::ThreadPool(int threads) : size_(threads) {
  ZU_CHECK(threads >= 1);
  parts_ = std::make_unique<Part[]>(static_cast<size_t>(threads));
  try {
    for (int part = 1; part < threads; ++part) parts_[part].worker = std::thread([this, part] { work(part); });
  } catch (...) {  // no more threads are to be had
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_ = true;
  generation_.fetch_add(1);
  start_.wake();
  for (int part = 1; part < size_; ++part)
    if (parts_[part].worker.joinable()) parts_[part].worker.join();
}

void ThreadPool::run_part(int part) {
  const int64_t grains = (job_.count + job_.grain - 1) / job_.grain;
  const int64_t begin = grains * part / size_ * job_.grain;
  const int64_t end = std::min(job_.count, grains * (part + 1) / size_ * job_.grain);
  if (begin >= end) return;
  FpEnvScope fp;
  job_.call(job_.body, begin, end, part);
}

bool ThreadPool::claim(int part, uint32_t generation) {
  uint32_t before = generation - 1;
  return parts_[part].claimed.compare_exchange_strong(before, generation);
}

void ThreadPool::work(int part) {
  int spins = SpinThenSleep::kMostSpins;
  for (uint32_t seen = 0;;) {
    start_.wait_while(seen, spins);
    seen = generation_.load();
    if (stopping_) return;
    // A job ends only when all its parts were claimed: a thread that comes too late cannot claim.
    if (!claim(part, seen)) continue;
    run_part(part);
    if (pending_.fetch_sub(1) == 1) done_.wake();
  }
}

void ThreadPool::run(const Job& job) {
  ZU_CHECK(job.grain >= 1);
  if (job.count <= 0) return;
  if (workers() == 0 || job.count <= job.grain) {
    FpEnvScope fp;
    job.call(job.body, 0, job.count, 0);
    return;
  }
  job_ = job;
  pending_.store(static_cast<uint32_t>(workers()));
  const uint32_t generation = generation_.fetch_add(1) + 1;
  start_.wake();
  run_part(0);
  for (int part = workers(); part > 0; --part) {
    if (!claim(part, generation)) continue;
    run_part(part);
    pending_.fetch_sub(1);
  }
  while (const uint32_t left = pending_.load(std::memory_order_acquire)) done_.wait_while(left, caller_spins_);
}

}  // namespace zeroulp
