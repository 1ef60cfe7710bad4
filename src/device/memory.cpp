#include <utility>

#include "device/device.h"
#include "device/error.h"

namespace zeroulp::device {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

Error out_of_memory(int64_t bytes, std::string_view what) {
  size_t free = 0, total = 0;
  cudaGetLastError();  // the failed allocation is dealt with here
  cudaMemGetInfo(&free, &total);
  int index = 0;
  cudaGetDevice(&index);
  return unavailable(fmt::format("{:.2f} GiB of GPU memory are wanted for {}; {:.2f} of {:.2f} GiB are free on cuda:{}", gib(bytes), what,
                                 gib(static_cast<int64_t>(free)), gib(static_cast<int64_t>(total)), index));
}

}  // namespace

Result<Buffer> Buffer::allocate(int64_t bytes, std::string_view what) {
  Buffer b;
  if (bytes == 0) return b;
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) return out_of_memory(bytes, what);
  ZU_TRY(check(error, fmt::format("allocating {}", what)));
  b.data_ = static_cast<std::byte*>(data);
  b.bytes_ = bytes;
  return b;
}

Buffer::Buffer(Buffer&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
Buffer& Buffer::operator=(Buffer&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}
Buffer::~Buffer() {
  if (data_ != nullptr) cudaFree(data_);
}

Result<PinnedBuffer> PinnedBuffer::allocate(int64_t bytes, std::string_view what) {
  PinnedBuffer b;
  if (bytes == 0) return b;
  void* data = nullptr;
  ZU_TRY(check(cudaMallocHost(&data, static_cast<size_t>(bytes)), fmt::format("{:.2f} GiB of page-locked memory for {}", gib(bytes), what)));
  b.data_ = static_cast<std::byte*>(data);
  b.bytes_ = bytes;
  return b;
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}
PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

}  // namespace zeroulp::device
