// The build without CUDA: there is no GPU, and whoever asks for one is told how to get a build that has.
#include "base/check.h"
#include "device/device.h"

namespace zeroulp::device {
namespace {

Error none() { return unavailable(why_unavailable(0)); }

}  // namespace

int count() { return 0; }
std::string why_unavailable(int) { return "this build has no GPU kernels (cmake --preset cuda makes one that has)"; }
Result<Properties> properties(int) { return none(); }
Status use(int) { return none(); }
Result<int> current_multiprocessors() { return none(); }

template <Memory kind>
Result<BufferOf<kind>> BufferOf<kind>::allocate(int64_t, std::string_view) {
  return none();
}
template <Memory kind>
void BufferOf<kind>::release(std::byte*) {}
template class BufferOf<Memory::kGpu>;
template class BufferOf<Memory::kPinned>;

// A stream, timer or graph cannot have been made, so nothing below is reached.
Result<Stream> Stream::create() { return none(); }
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;
void Stream::to_device(void*, const void*, int64_t) const { ZU_CHECK(false); }
void Stream::to_host(void*, const void*, int64_t) const { ZU_CHECK(false); }
void Stream::on_device(void*, const void*, int64_t) const { ZU_CHECK(false); }
void Stream::fill(void*, int, int64_t) const { ZU_CHECK(false); }
Status Stream::synchronize() const { return none(); }

Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;
void Graph::launch(const Stream&) const { ZU_CHECK(false); }
Status Graph::begin(const Stream&) { return none(); }
Result<Graph> Graph::end(const Stream&) { return none(); }

Result<Timer> Timer::create() { return none(); }
Timer::Timer(Timer&&) noexcept = default;
Timer& Timer::operator=(Timer&&) noexcept = default;
Timer::~Timer() = default;
void Timer::start(const Stream&) const { ZU_CHECK(false); }
void Timer::stop(const Stream&) const { ZU_CHECK(false); }
Result<double> Timer::milliseconds() const { return none(); }

Result<double> read_bandwidth(int64_t, int) { return none(); }

}  // namespace zeroulp::device
