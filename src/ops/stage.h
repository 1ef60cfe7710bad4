// Runs a GPU variant on arguments in host memory: every array is copied to the device, the kernel runs, what it may have written is copied
// back. Slow, with buffers of the exact sizes, so that compute-sanitizer sees a read or write past an end. Uses the calling thread's GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "device/device.h"
#include "ops/op.h"

namespace zeroulp::ops {

// Bytes of `rows` rows of `columns` elements of `size` bytes; nothing is behind the last row.
constexpr int64_t row_extent(int64_t rows, int64_t columns, int64_t stride, int64_t size) {
  return rows == 0 ? 0 : ((rows - 1) * stride + columns) * size;
}

class Stage {
 public:
  Stage();
  ~Stage();

  // Replaces a host pointer by that of a device copy. Arrays that start at the same place share one.
  template <class T>
  void read(T*& pointer, int64_t bytes) {
    pointer = static_cast<T*>(move(pointer, bytes, false));
  }
  // Written arrays are copied in as well: what the kernel leaves alone keeps its bits.
  template <class T>
  void write(T*& pointer, int64_t bytes) {
    pointer = static_cast<T*>(move(pointer, bytes, true));
  }
  // An array of pointers to blocks of `bytes` each.
  void read_blocks(const std::byte* const*& blocks, int64_t count, int64_t bytes);

  device::Launch launch(int64_t workspace_bytes);
  // Waits, copies back. An error here ends the program: a kernel that cannot run has no place in a table.
  void finish();

 private:
  struct Copy {
    std::byte* host;
    device::Buffer device;
    bool written;
  };
  void* move(const void* host, int64_t bytes, bool written);

  device::Stream stream_;
  std::vector<Copy> copies_;
  std::vector<std::byte*> block_pointers_;
  device::Buffer workspace_;
};

// MoveArrays calls read and write for every array of the arguments.
template <class Args, DeviceFn<Args>* Run, void (*MoveArrays)(Args&, Stage&), int64_t (*Workspace)(const Args&) = nullptr>
void staged(const Args& host) {
  Stage stage;
  Args args = host;
  const int64_t workspace = Workspace == nullptr ? 0 : Workspace(host);
  MoveArrays(args, stage);
  Run(args, stage.launch(workspace));
  stage.finish();
}

}  // namespace zeroulp::ops
