// A GPU for the rest of the program: properties, one stream, memory with sizes checked in 64 bits, errors as one-line Results.
// No CUDA header is needed to include this. In a build without ZEROULP_CUDA there is no device, and every call says so.
//
// Kernels are launched asynchronously on a stream and return nothing; an error of a launch or of a kernel is met by the next
// synchronize().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

struct CUstream_st;

namespace zeroulp::device {

using StreamHandle = CUstream_st*;  // cudaStream_t

// What an op needs to run: the stream, and scratch that nobody else uses while work of this stream is under way.
struct Launch {
  StreamHandle stream = nullptr;
  std::byte* workspace = nullptr;  // aligned to 256 bytes
  int64_t workspace_bytes = 0;
  int multiprocessors = 1;
};

struct Properties {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
  int driver = 0, runtime = 0;  // as CUDA counts them: 13000 is 13.0
};

// "cpu" or "cuda[:N]", as --device takes it. The index of the GPU, or -1 for the CPU.
Result<int> parse_device(std::string_view text);

// The GPUs that the driver shows; 0 without a driver or in a build without CUDA.
int count();
// Why GPU `index` cannot run this build's kernels; empty when it can.
std::string why_unavailable(int index);
Result<Properties> properties(int index);

// Where a buffer lies. kPinned: page-locked host memory, for copies that a graph can hold; device code may read and write it too.
enum class Memory { kGpu, kPinned };

// Memory of one kind. Never null unless empty.
template <Memory kind>
class BufferOf {
 public:
  BufferOf() = default;
  // `what` is for the line that a failure gives: "40.10 GiB of GPU memory are wanted for weights; 12.30 of 139.80 GiB are free on cuda:0".
  static Result<BufferOf> allocate(int64_t bytes, std::string_view what);
  BufferOf(BufferOf&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  BufferOf& operator=(BufferOf&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~BufferOf() {
    if (data_ != nullptr) release(data_);
  }

  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  static void release(std::byte* data);

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};
using Buffer = BufferOf<Memory::kGpu>;
using PinnedBuffer = BufferOf<Memory::kPinned>;

// a * b as a byte count: the product when it fits 63 bits, otherwise an error naming `what`.
Result<int64_t> checked_bytes(int64_t count, int64_t size, std::string_view what);

// A stream of the GPU that was current when it was made.
class Stream {
 public:
  static Result<Stream> create();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  StreamHandle handle() const { return handle_; }
  // Asynchronous for pinned host memory.
  void to_device(void* to, const void* from, int64_t bytes) const;
  void to_host(void* to, const void* from, int64_t bytes) const;
  void on_device(void* to, const void* from, int64_t bytes) const;
  void fill(void* to, int value, int64_t bytes) const;
  // Waits, and reports the first error of anything that was enqueued.
  Status synchronize() const;

 private:
  Stream() = default;
  StreamHandle handle_ = nullptr;
};

// Of the calling thread's GPU.
Result<int> current_multiprocessors();

// Makes GPU `index` the calling thread's. Fails as why_unavailable says.
Status use(int index);

// A recorded sequence of launches on one stream that is replayed with one call.
class Graph {
 public:
  Graph() = default;
  // Records what `work` enqueues on the stream; nothing runs. What the launches point to must stay where it is.
  template <class Work>
  static Result<Graph> capture(const Stream& stream, Work work) {
    ZU_TRY(begin(stream));
    work();
    return end(stream);
  }
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  bool empty() const { return executable_ == nullptr; }
  void launch(const Stream& stream) const;
  // The nodes in the order of recording: a kernel by its demangled name, anything else by its kind ("memcpy").
  const std::vector<std::string>& nodes() const { return nodes_; }

 private:
  static Status begin(const Stream& stream);
  static Result<Graph> end(const Stream& stream);

  void* executable_ = nullptr;  // cudaGraphExec_t
  std::vector<std::string> nodes_;
};

// Time between two points of a stream in milliseconds.
class Timer {
 public:
  static Result<Timer> create();
  Timer(Timer&& other) noexcept;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer();
  void start(const Stream& stream) const;
  void stop(const Stream& stream) const;
  Result<double> milliseconds() const;  // waits for the stop

 private:
  Timer() = default;
  void *begin_ = nullptr, *end_ = nullptr;
};

// Bytes per second of a kernel that reads `bytes` of device memory once: the median of `repeats`. The ceiling of batch-1 decoding.
Result<double> read_bandwidth(int64_t bytes, int repeats);

}  // namespace zeroulp::device
