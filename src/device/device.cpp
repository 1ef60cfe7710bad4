#include "device/device.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "device/error.h"
#include "device/probe.h"

namespace zeroulp::device {

int count() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

std::string why_unavailable(int index) {
  int n = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&n); error != cudaSuccess) return fmt::format("no usable GPU driver: {}", cudaGetErrorString(error));
  if (index >= n) return fmt::format("there is no GPU {}; the driver shows {}", index, n);
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
  // The kernels are built for sm_90a, whose code runs on no other capability.
  if (major != 9 || minor != 0) return fmt::format("the kernels are for compute capability 9.0; GPU {} has {}.{}", index, major, minor);
  return "";
}

Result<Properties> properties(int index) {
  if (const std::string why = why_unavailable(index); !why.empty()) return unavailable(why);
  cudaDeviceProp p{};
  ZU_TRY(check(cudaGetDeviceProperties(&p, index), "reading the GPU's properties"));
  Properties out{index, p.name, p.major, p.minor, p.multiProcessorCount, static_cast<int64_t>(p.totalGlobalMem), p.l2CacheSize, 0, 0};
  cudaDriverGetVersion(&out.driver);
  cudaRuntimeGetVersion(&out.runtime);
  return out;
}

Result<int> current_multiprocessors() {
  int index = 0, n = 0;
  ZU_TRY(check(cudaGetDevice(&index), "reading the GPU's properties"));
  ZU_TRY(check(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, index), "reading the GPU's properties"));
  return n;
}

Status use(int index) {
  if (const std::string why = why_unavailable(index); !why.empty()) return unavailable(why);
  return check(cudaSetDevice(index), "choosing the GPU");
}

Result<Stream> Stream::create() {
  Stream s;
  ZU_TRY(check(cudaStreamCreateWithFlags(&s.handle_, cudaStreamNonBlocking), "making a stream"));
  return s;
}
Stream::Stream(Stream&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
Stream& Stream::operator=(Stream&& o) noexcept {
  std::swap(handle_, o.handle_);
  return *this;
}
Stream::~Stream() {
  if (handle_ != nullptr) cudaStreamDestroy(handle_);
}

// An error of a copy stays with the runtime until synchronize() asks for it.
void Stream::to_device(void* to, const void* from, int64_t bytes) const {
  cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, handle_);
}
void Stream::to_host(void* to, const void* from, int64_t bytes) const {
  cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, handle_);
}
void Stream::on_device(void* to, const void* from, int64_t bytes) const {
  cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, handle_);
}
void Stream::fill(void* to, int value, int64_t bytes) const { cudaMemsetAsync(to, value, static_cast<size_t>(bytes), handle_); }
Status Stream::synchronize() const {
  const cudaError_t launches = cudaGetLastError();
  ZU_TRY(check(cudaStreamSynchronize(handle_), "waiting for the GPU"));
  return check(launches, "launching a kernel");
}

Result<Timer> Timer::create() {
  Timer t;
  ZU_TRY(check(cudaEventCreate(reinterpret_cast<cudaEvent_t*>(&t.begin_)), "making a timer"));
  ZU_TRY(check(cudaEventCreate(reinterpret_cast<cudaEvent_t*>(&t.end_)), "making a timer"));
  return t;
}
Timer::Timer(Timer&& o) noexcept : begin_(std::exchange(o.begin_, nullptr)), end_(std::exchange(o.end_, nullptr)) {}
Timer& Timer::operator=(Timer&& o) noexcept {
  std::swap(begin_, o.begin_);
  std::swap(end_, o.end_);
  return *this;
}
Timer::~Timer() {
  for (void* event : {begin_, end_})
    if (event != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(event));
}
void Timer::start(const Stream& s) const { cudaEventRecord(static_cast<cudaEvent_t>(begin_), s.handle()); }
void Timer::stop(const Stream& s) const { cudaEventRecord(static_cast<cudaEvent_t>(end_), s.handle()); }
Result<double> Timer::milliseconds() const {
  float ms = 0;
  ZU_TRY(check(cudaEventSynchronize(static_cast<cudaEvent_t>(end_)), "waiting for the GPU"));
  ZU_TRY(check(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(begin_), static_cast<cudaEvent_t>(end_)), "reading a timer"));
  return ms;
}

Result<double> read_bandwidth(int64_t bytes, int repeats) {
  ZU_TRY_ASSIGN(const Buffer buffer, Buffer::allocate(bytes + 16, "the bandwidth probe"));
  ZU_TRY_ASSIGN(const Stream stream, Stream::create());
  ZU_TRY_ASSIGN(const Timer timer, Timer::create());
  ZU_TRY_ASSIGN(const int multiprocessors, current_multiprocessors());
  stream.fill(buffer.data(), 0, buffer.bytes());
  std::vector<double> times;
  for (int i = 0; i < repeats + 2; ++i) {
    timer.start(stream);
    launch_read_all(buffer.data(), bytes / 16, multiprocessors, stream.handle());
    timer.stop(stream);
    ZU_TRY_ASSIGN(const double ms, timer.milliseconds());
    if (i >= 2) times.push_back(ms);  // the first two warm up
  }
  ZU_TRY(stream.synchronize());
  std::sort(times.begin(), times.end());
  return static_cast<double>(bytes) / (times[times.size() / 2] * 1e-3);
}

}  // namespace zeroulp::device
