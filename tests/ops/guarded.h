// An array that ends at a page which may not be touched: a kernel that reads or writes behind its input's end stops the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace zeroulp::ops {

template <class T>
class Guarded {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Guarded(int64_t count = 0, T value = T{}) : size_(static_cast<size_t>(count)) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = size_ * sizeof(T), usable = (bytes + page - 1) / page * page;
    void* base = mmap(nullptr, usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(static_cast<std::byte*>(base) + usable, page, PROT_NONE) != 0) throw std::bad_alloc();
    pages_ = {static_cast<std::byte*>(base), Unmap{usable + page}};
    data_ = reinterpret_cast<T*>(pages_.get() + (usable - bytes));
    std::fill_n(data_, size_, value);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  struct Unmap {
    size_t bytes = 0;
    void operator()(std::byte* p) const { munmap(p, bytes); }
  };
  size_t size_;
  std::unique_ptr<std::byte, Unmap> pages_;
  T* data_;
};

}  // namespace zeroulp::ops
