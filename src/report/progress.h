// Progress on standard error: one line, on a terminal only, at most ten times a second. Elsewhere it is silent.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace zeroulp::report {

class Progress {
 public:
  // `total` 0: not known beforehand. Unit "B" is shown as KiB, MiB and so on.
  Progress(std::string label, uint64_t total, std::string unit = "");
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // From any thread.
  void advance(uint64_t count = 1);
  void set(uint64_t done);
  // A few words after the figures: the layer, the file.
  void detail(std::string text);

 private:
  void draw_if_due();

  const std::string label_, unit_;
  const uint64_t total_;
  const std::chrono::steady_clock::time_point started_;
  const bool shown_;
  std::atomic<uint64_t> done_{0};
  std::mutex mutex_;  // guards the rest
  std::string detail_;
  std::chrono::steady_clock::time_point next_draw_;
  bool drawn_ = false;
};

// The line itself, at most `width` columns wide.
std::string progress_line(std::string_view label, uint64_t done, uint64_t total, std::string_view unit, double elapsed_s,
                          std::string_view detail, int width);

}  // namespace zeroulp::report
