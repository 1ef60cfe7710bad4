// Tests that need a GPU: they run when one is there and are reported as skipped when not.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "device/device.h"

namespace zeroulp::device {

#define ZU_NEEDS_GPU() \
  if (const Status usable = device::use(0); !usable) GTEST_SKIP() << usable.error().text

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(result).value();
}
inline void must(const Status& status) {
  if (!status) throw std::runtime_error(status.error().text);
}

// A stream with a launch, and arrays on the GPU.
class Bench {
 public:
  Bench() : stream(must(Stream::create())) { launch = {stream.handle(), nullptr, 0, must(current_multiprocessors())}; }

  template <class T>
  T* put(const std::vector<T>& values) {
    buffers_.push_back(must(Buffer::allocate(static_cast<int64_t>(std::max<size_t>(values.size(), 1) * sizeof(T)), "a test")));
    stream.to_device(buffers_.back().data(), values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
    must(stream.synchronize());
    return buffers_.back().as<T>();
  }
  template <class T>
  std::vector<T> get(const T* from, size_t count) {
    std::vector<T> values(count);
    stream.to_host(values.data(), from, static_cast<int64_t>(count * sizeof(T)));
    must(stream.synchronize());
    return values;
  }

  Stream stream;
  Launch launch;

 private:
  std::vector<Buffer> buffers_;
};

}  // namespace zeroulp::device
