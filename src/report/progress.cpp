#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "report/text.h"

namespace zeroulp::report {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr int kBarColumns = 20;

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string amount(uint64_t value, std::string_view unit) {
  return unit == "B" ? bytes_text(value) : count_text(static_cast<int64_t>(value));
}

std::string bar(uint64_t done, uint64_t total) {
  const int filled = static_cast<int>(static_cast<double>(done) / static_cast<double>(total) * kBarColumns);
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", kBarColumns - filled);
}

}  // namespace

std::string progress_line(std::string_view label, uint64_t done, uint64_t total, std::string_view unit, double elapsed_s,
                          std::string_view detail, int width) {
  std::string line = fmt::format("{} ", label);
  const double rate = elapsed_s > 0 ? static_cast<double>(done) / elapsed_s : 0;
  if (total > 0) {
    done = std::min(done, total);
    line += fmt::format("{} {}/{}", bar(done, total), amount(done, unit), amount(total, unit));
  } else {
    line += amount(done, unit);
  }
  if (!unit.empty() && unit != "B") line += fmt::format(" {}", unit);
  if (rate > 0 && elapsed_s >= 0.5) {
    line += unit == "B" ? fmt::format(", {}/s", bytes_text(static_cast<uint64_t>(rate)))
                        : fmt::format(", {}/s", significant(rate, 3));
    if (total > done) line += fmt::format(", {} left", duration_text(static_cast<double>(total - done) / rate));
  }
  if (!detail.empty()) line += fmt::format("  {}", detail);
  return shorten(on_one_line(line), width);
}

Progress::Progress(std::string label, uint64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      started_(Clock::now()),
      shown_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::advance(uint64_t count) {
  done_.fetch_add(count, std::memory_order_relaxed);
  draw_if_due();
}

void Progress::set(uint64_t done) {
  done_.store(done, std::memory_order_relaxed);
  draw_if_due();
}

void Progress::detail(std::string text) {
  if (!shown_) return;
  const std::scoped_lock lock(mutex_);
  detail_ = std::move(text);
}

void Progress::draw_if_due() {
  if (!shown_) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // another thread is drawing
  const auto now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kInterval;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  const std::string line =
      progress_line(label_, done_.load(std::memory_order_relaxed), total_, unit_, elapsed, detail_, terminal_columns() - 1);
  fmt::print(stderr, "\r{}\x1b[K", line);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace zeroulp::report
