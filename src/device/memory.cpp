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

template <Memory kind>
Result<BufferOf<kind>> BufferOf<kind>::allocate(int64_t bytes, std::string_view what) {
  BufferOf b;
  if (bytes == 0) return b;
  void* data = nullptr;
  if constexpr (kind == Memory::kGpu) {
    const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) return out_of_memory(bytes, what);
    ZU_TRY(check(error, fmt::format("allocating {}", what)));
  } else {
    ZU_TRY(check(cudaMallocHost(&data, static_cast<size_t>(bytes)), fmt::format("{:.2f} GiB of page-locked memory for {}", gib(bytes), what)));
  }
  b.data_ = static_cast<std::byte*>(data);
  b.bytes_ = bytes;
  return b;
}

template <Memory kind>
void BufferOf<kind>::release(std::byte* data) {
  kind == Memory::kGpu ? cudaFree(data) : cudaFreeHost(data);
}

template class BufferOf<Memory::kGpu>;
template class BufferOf<Memory::kPinned>;

}  // namespace zeroulp::device
