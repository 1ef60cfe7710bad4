#include "ops/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace zeroulp::ops {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(result).value();
}
void must(Status status) {
  if (!status) throw std::runtime_error(status.error().text);
}

}  // namespace

Stage::Stage() : stream_(must(device::Stream::create())) {}
Stage::~Stage() = default;

void* Stage::move(const void* host, int64_t bytes, bool written) {
  if (host == nullptr) return nullptr;
  auto* start = static_cast<std::byte*>(const_cast<void*>(host));
  for (Copy& c : copies_) {
    if (c.host != start) continue;
    ZU_CHECK(bytes <= c.device.bytes());
    c.written |= written;
    return c.device.data();
  }
  copies_.push_back({start, must(device::Buffer::allocate(std::max<int64_t>(bytes, 1), "a case")), written});
  stream_.to_device(copies_.back().device.data(), host, bytes);
  return copies_.back().device.data();
}

void Stage::read_blocks(const std::byte* const*& blocks, int64_t count, int64_t bytes) {
  for (int64_t i = 0; i < count; ++i) block_pointers_.push_back(static_cast<std::byte*>(move(blocks[i], bytes, false)));
  const auto* pointers = const_cast<const std::byte* const*>(block_pointers_.data());
  read(pointers, count * static_cast<int64_t>(sizeof(std::byte*)));
  blocks = pointers;
}

device::Launch Stage::launch(int64_t workspace_bytes) {
  workspace_ = must(device::Buffer::allocate(workspace_bytes, "a kernel's workspace"));
  return {stream_.handle(), workspace_.data(), workspace_bytes, must(device::current_multiprocessors())};
}

void Stage::finish() {
  must(stream_.synchronize());
  for (const Copy& c : copies_)
    if (c.written) stream_.to_host(c.host, c.device.data(), c.device.bytes());
  must(stream_.synchronize());
}

}  // namespace zeroulp::ops
