#include "codec/transfer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "base/interrupt.h"
#include "num/digest.h"

namespace zeroulp::codec {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPiece = 64 << 10;  // sent at once, between two looks at the clock
constexpr size_t kSlots = 16;        // of a piece each, in shared memory
constexpr size_t kAhead = 2;         // chunks that coding may be ahead of sending, or receiving of decoding

// A one-way stream of bytes. False: the other side is gone.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual bool put(const std::byte* from, size_t bytes) = 0;
  virtual bool get(std::byte* to, size_t bytes) = 0;
};

class SocketStream : public Stream {
 public:
  explicit SocketStream(int fd) : fd_(fd) {}
  ~SocketStream() override { ::close(fd_); }
  bool put(const std::byte* from, size_t bytes) override {
    while (bytes > 0) {
      const ssize_t n = ::send(fd_, from, bytes, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      from += n, bytes -= static_cast<size_t>(n);
    }
    return true;
  }
  bool get(std::byte* to, size_t bytes) override {
    while (bytes > 0) {
      const ssize_t n = ::recv(fd_, to, bytes, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      to += n, bytes -= static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

// Slots in memory that both processes see, handed over by two counting semaphores.
struct Ring {
  sem_t filled, empty;
  size_t length[kSlots];
  std::byte data[kSlots][kPiece];
};

class RingStream : public Stream {
 public:
  explicit RingStream(Ring* ring) : ring_(ring) {}
  bool put(const std::byte* from, size_t bytes) override {
    for (; bytes > 0; slot_ = (slot_ + 1) % kSlots) {
      if (!wait(&ring_->empty)) return false;
      const size_t n = std::min(bytes, kPiece);
      std::memcpy(ring_->data[slot_], from, n);
      ring_->length[slot_] = n;
      ::sem_post(&ring_->filled);
      from += n, bytes -= n;
    }
    return true;
  }
  bool get(std::byte* to, size_t bytes) override {
    while (bytes > 0) {
      if (left_ == 0) {
        if (!wait(&ring_->filled)) return false;
        left_ = ring_->length[slot_], at_ = 0;
      }
      const size_t n = std::min(bytes, left_);
      std::memcpy(to, ring_->data[slot_] + at_, n);
      to += n, bytes -= n, at_ += n, left_ -= n;
      if (left_ > 0) continue;
      slot_ = (slot_ + 1) % kSlots;
      ::sem_post(&ring_->empty);
    }
    return true;
  }

 private:
  // A minute without the other side counts as its end.
  static bool wait(sem_t* semaphore) {
    timespec until;
    ::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    while (::sem_timedwait(semaphore, &until) != 0)
      if (errno != EINTR) return false;
    return true;
  }
  Ring* ring_;
  size_t slot_ = 0, left_ = 0, at_ = 0;
};

// Holds back so that no more than the given rate leaves on average.
class Throttle {
 public:
  explicit Throttle(double rate) : rate_(rate), start_(Clock::now()) {}
  bool put(Stream& to, const std::byte* from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kPiece) {
      const size_t n = std::min(kPiece, bytes - at);
      if (!to.put(from + at, n)) return false;
      sent_ += n;
      if (rate_ > 0 && !hold_back()) return false;
    }
    return true;
  }
  uint64_t sent() const { return sent_; }

 private:
  // False when Ctrl-C ends the wait.
  bool hold_back() const {
    constexpr double kLook = 0.05;  // seconds between looks for Ctrl-C
    for (;;) {
      const double left = static_cast<double>(sent_) / rate_ - std::chrono::duration<double>(Clock::now() - start_).count();
      if (left <= 0) return true;
      if (interrupt_requested()) return false;
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kLook)));
    }
  }

  const double rate_;
  const Clock::time_point start_;
  uint64_t sent_ = 0;
};

// A bounded queue between two threads; an empty chunk ends it.
class Chunks {
 public:
  void push(std::vector<std::byte> chunk) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.size() < kAhead; });
    queue_.push_back(std::move(chunk));
    changed_.notify_all();
  }
  std::vector<std::byte> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !queue_.empty(); });
    std::vector<std::byte> chunk = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    return chunk;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<std::byte>> queue_;
};

// The receiver: takes length and bytes of each chunk, decodes on a second thread, answers with the hash of everything.
bool receive(const Kernels& kernels, bool coded, Stream& in, Stream& answer, uint64_t raw_bytes) {
  std::vector<std::byte> raw(raw_bytes);
  Chunks chunks;
  bool good = true;
  std::thread decoder([&] {
    std::span<std::byte> to = raw;
    for (;;) {
      const std::vector<std::byte> chunk = chunks.pop();
      if (chunk.empty()) return;
      if (!coded) {
        good = good && chunk.size() <= to.size();
        if (good) std::memcpy(to.data(), chunk.data(), chunk.size()), to = to.subspan(chunk.size());
        continue;
      }
      const auto frame = Frame::open(chunk, "chunk");
      good = good && frame && frame->header().raw_bytes <= to.size() && decode_frame(kernels, *frame, to.first(frame->header().raw_bytes), "chunk");
      if (good) to = to.subspan(frame->header().raw_bytes);
    }
  });
  uint64_t length = 0;
  bool alive = true;
  while ((alive = in.get(reinterpret_cast<std::byte*>(&length), 8)) && length != 0 && length <= 2 * raw_bytes + (1 << 20)) {
    std::vector<std::byte> chunk(length);
    if (!(alive = in.get(chunk.data(), chunk.size()))) break;
    chunks.push(std::move(chunk));
  }
  chunks.push({});
  decoder.join();
  const num::Digest digest = num::xxh3_128(raw);
  return alive && good && answer.put(reinterpret_cast<const std::byte*>(&digest), sizeof(digest));
}

// The sender's side of a pair; fills `result`.
Status send_all(const Kernels& kernels, const TransferOptions& o, std::span<const std::byte> raw, Stream& out, Stream& answer, TransferResult& result) {
  const num::Digest expected = num::xxh3_128(raw);
  const std::vector<Chunk> parts = chunks_of(o, raw);
  Chunks chunks;
  std::string problem;
  const auto start = Clock::now();
  std::thread coder([&] {
    FrameOptions frame = o.frame;
    for (const auto& [type, part] : parts) {
      if (!problem.empty()) break;
      std::vector<std::byte> chunk;
      if (o.coded) {
        frame.type = type;
        chunk.resize(frame_bound(frame, part.size(), static_cast<uint32_t>(blocks_of(frame, part.size()))));
        const auto used = encode_frame(kernels, frame, part, chunk);
        if (!used) problem = used.error().text;
        chunk.resize(used ? *used : 0);
      } else {
        chunk.assign(part.begin(), part.end());
      }
      if (!chunk.empty()) chunks.push(std::move(chunk));
    }
    chunks.push({});
  });
  Throttle throttle(o.bytes_per_second);
  bool alive = true;
  for (;;) {
    const std::vector<std::byte> chunk = chunks.pop();
    const uint64_t length = chunk.size();
    alive = alive && out.put(reinterpret_cast<const std::byte*>(&length), 8) && throttle.put(out, chunk.data(), chunk.size());
    if (chunk.empty()) break;
  }
  coder.join();
  num::Digest got;
  alive = alive && answer.get(reinterpret_cast<std::byte*>(&got), sizeof(got));
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.sent_bytes = throttle.sent();
  if (!problem.empty()) return usage_error(problem);
  if (interrupt_requested()) return interrupted();
  if (!alive) return unavailable("transfer: the receiving process ended early");
  if (got != expected) return answer_is_no("transfer: the receiver holds other bytes than were sent");
  return {};
}

Error system_failure(const char* what) { return unavailable(fmt::format("transfer: {}: {}", what, std::strerror(errno))); }

// Runs both sides over a connected pair of descriptors and, for shared memory, a ring.
Result<TransferResult> run_pair(const Kernels& kernels, const TransferOptions& o, std::span<const std::byte> raw, int mine, int theirs, Ring* ring) {
  const pid_t child = ::fork();
  if (child < 0) return system_failure("cannot fork");
  if (child == 0) {
    ::close(mine);
    SocketStream socket(theirs);
    RingStream shared(ring);
    Stream& in = ring != nullptr ? static_cast<Stream&>(shared) : socket;
    const bool good = receive(kernels, o.coded, in, socket, raw.size());
    ::_exit(good ? 0 : 1);
  }
  ::close(theirs);
  TransferResult result;
  Status status;
  {
    SocketStream socket(mine);
    RingStream shared(ring);
    status = send_all(kernels, o, raw, ring != nullptr ? static_cast<Stream&>(shared) : socket, socket, result);
  }
  int code = 0;
  if (!status) ::kill(child, SIGKILL);
  ::waitpid(child, &code, 0);
  ZU_TRY(std::move(status));
  return result;
}

// Two ends of a TCP connection over the loopback device.
Status connect_tcp(int ends[2]) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return system_failure("cannot open a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ends[0] = ends[1] = -1;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 && ::listen(listener, 1) == 0 &&
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    ends[0] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ends[0] >= 0 && ::connect(ends[0], reinterpret_cast<sockaddr*>(&address), size) == 0) ends[1] = ::accept(listener, nullptr, nullptr);
  }
  ::close(listener);
  if (ends[1] < 0) {
    if (ends[0] >= 0) ::close(ends[0]);
    return system_failure("cannot connect over the loopback device");
  }
  const int on = 1;
  for (int i = 0; i < 2; ++i) ::setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return {};
}

}  // namespace

std::vector<Chunk> chunks_of(const TransferOptions& o, std::span<const std::byte> raw) {
  std::vector<TypedRun> runs = o.runs;
  if (runs.empty()) runs.push_back({o.frame.type, raw.size()});
  std::vector<Chunk> chunks;
  for (const TypedRun& run : runs) {
    for (uint64_t at = 0; at < run.bytes; at += o.chunk_bytes) chunks.push_back({run.type, raw.subspan(at, std::min(o.chunk_bytes, run.bytes - at))});
    raw = raw.subspan(run.bytes);
  }
  return chunks;
}

Result<TransferResult> transfer(const Kernels& kernels, const TransferOptions& o, std::span<const std::byte> raw) {
  ZU_TRY(check_options(o.frame));
  if (o.chunk_bytes == 0 || o.chunk_bytes % o.frame.block_bytes != 0)
    return usage_error(fmt::format("transfer: chunks of {} bytes are no multiple of blocks of {}", o.chunk_bytes, o.frame.block_bytes));
  uint64_t typed = 0;
  for (const TypedRun& run : o.runs) {
    typed += run.bytes;
    if (o.chunk_bytes % static_cast<uint32_t>(type_info(run.type).bytes) != 0 || run.bytes % static_cast<uint32_t>(type_info(run.type).bytes) != 0)
      return usage_error(fmt::format("transfer: {} bytes, or chunks of {}, are no whole number of {} elements", run.bytes, o.chunk_bytes, type_info(run.type).name));
  }
  if (!o.runs.empty() && typed != raw.size()) return usage_error(fmt::format("transfer: types are given for {} bytes, and there are {}", typed, raw.size()));
  int ends[2];
  if (o.link == Link::kTcp) {
    ZU_TRY(connect_tcp(ends));
    return run_pair(kernels, o, raw, ends[0], ends[1], nullptr);
  }
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_failure("cannot open a socket");
  void* memory = ::mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_failure("cannot share memory");
  Ring* ring = static_cast<Ring*>(memory);
  ::sem_init(&ring->filled, 1, 0);
  ::sem_init(&ring->empty, 1, kSlots);
  auto result = run_pair(kernels, o, raw, ends[0], ends[1], ring);
  ::munmap(memory, sizeof(Ring));
  return result;
}

}  // namespace zeroulp::codec
