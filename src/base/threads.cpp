#include "base/threads.h"

#include <algorithm>

#include "base/check.h"
#include "base/fp_env.h"

namespace zeroulp {

ThreadPool::ThreadPool(int threads) {
  ZU_CHECK(threads >= 1);
  for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::run_part(const Job& job, int worker) const {
  const int64_t grains = (job.count + job.grain - 1) / job.grain;
  const int64_t begin = grains * worker / size() * job.grain;
  const int64_t end = std::min(job.count, grains * (worker + 1) / size() * job.grain);
  if (begin >= end) return;
  FpEnvScope fp;
  (*job.body)(begin, end, worker);
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      job = job_;
    }
    run_part(job, worker);
    std::lock_guard lock(mutex_);
    if (--pending_ == 0) done_.notify_one();
  }
}

void ThreadPool::parallel_for(int64_t count, int64_t grain, const Body& body) {
  ZU_CHECK(grain >= 1);
  if (count <= 0) return;
  const Job job{&body, count, grain};
  if (workers_.empty() || count <= grain) {
    FpEnvScope fp;
    body(0, count, 0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    job_ = job;
    pending_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  start_.notify_all();
  run_part(job, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return pending_ == 0; });
}

}  // namespace zeroulp
