// Exact reductions between GPUs by NCCL, found at run time: the program starts without it. Every rank has a GPU of its own; NCCL refuses two
// ranks on one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "device/device.h"

namespace zeroulp::device {

class Nccl {
 public:
  using Id = std::array<int64_t, 16>;  // what all ranks of a communicator must have in common

  // Made by one rank and handed to the others. Exit code 4 without libnccl.so.2.
  static Result<Id> make_id();
  // All ranks call it, each with its GPU current.
  static Result<std::unique_ptr<Nccl>> create(const Id& id, int rank, int size);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // In place on device memory, enqueued on the stream. Sums of int64 and maxima of int32 have no order to depend on.
  Status sum(int64_t* values, int64_t count, StreamHandle stream);
  Status max(int32_t* values, int64_t count, StreamHandle stream);

 private:
  explicit Nccl(void* communicator) : communicator_(communicator) {}
  void* communicator_;
};

}  // namespace zeroulp::device
