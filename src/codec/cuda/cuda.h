// The codec on a GPU: the same frames as the CPU's, byte for byte. Every type, levels fast and balanced; decodes every frame but those with
// RANS blocks.
//
// Calls enqueue on a stream and return: no allocation, no synchronisation, fit for capture in a graph. All pointers are device memory;
// frames, pages and strides are aligned to 16 bytes, tables to 8. No CUDA header is needed to include this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "codec/frame.h"
#include "device/device.h"

namespace zeroulp::codec::cuda {

// Block i is at base + (page ? page[i] : i) * stride and holds valid[i] values; without `valid` it is full, but for the last one.
struct EncodeCall {
  FrameOptions options;             // `table` says on the host what `table` below holds on the device
  const uint8_t* table = nullptr;
  const std::byte* base = nullptr;
  uint64_t stride = 0;
  const uint32_t* page = nullptr;
  const uint32_t* valid = nullptr;
  uint32_t blocks = 0;
  uint64_t raw_bytes = 0;           // of all valid values
  std::byte* frame = nullptr;
  uint64_t frame_capacity = 0;      // at least frame_bound()
  uint64_t* frame_bytes = nullptr;  // may be null; the frame's length, also readable in its header. Device or mapped host memory
  void* workspace = nullptr;        // encode_workspace_bytes(), for this call alone until it is done
};
uint64_t encode_workspace_bytes(uint32_t blocks);
Status encode(const EncodeCall& call, device::StreamHandle stream);

// What the receiver expects; a frame that says otherwise is refused.
struct DecodeCall {
  Type type = Type::kBF16;
  uint32_t block_bytes = 0, blocks = 0, period = 0;
  uint64_t raw_bytes = 0;
  bool ragged = false;
  const std::byte* frame = nullptr;
  uint64_t frame_capacity = 0;      // bytes that may be read at `frame`
  std::byte* base = nullptr;
  uint64_t stride = 0;              // at least block_bytes
  const uint32_t* page = nullptr;   // distinct, as the caller warrants; a page outside page_count is refused
  uint32_t page_count = 0;
  uint64_t* status = nullptr;       // 0 after a good frame; see decode_status
};
// Nothing outside the pages is written, whatever the frame holds; the content of pages at fault is undefined.
Status decode(const DecodeCall& call, device::StreamHandle stream);

struct DecodeStatus {
  Fault fault = Fault::kNone;
  uint32_t block = 0;  // the lowest at fault
};
DecodeStatus decode_status(uint64_t word);

}  // namespace zeroulp::codec::cuda
