// What the kernels are given. cuda.h says what a caller gives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/format.h"
#include "device/device.h"

namespace zeroulp::codec::cuda {

// Values of a block by its number, and where it lies.
struct Blocks {
  uint64_t base;          // address of the first page
  uint64_t stride;        // bytes from page to page; base and stride are multiples of 16
  const uint32_t* page;   // null: in order
  uint32_t blocks, block_values;
};

struct EncodeArgs {
  Blocks from;
  const uint32_t* valid;        // null: full blocks, the last one of `last_values`
  uint32_t last_values;
  const uint8_t* table;
  uint32_t period;
  std::byte* frame;
  uint64_t directory, payloads;  // offsets in the frame
  unsigned long long* places;    // look-back: state << 62 | units of 16 bytes
  uint64_t head[5];              // the header's first 40 bytes but for payload_bytes
  uint64_t* frame_bytes;         // may be null
  bool hashes, balanced;
};

struct DecodeArgs {
  Blocks to;
  uint32_t page_count;
  const std::byte* frame;
  uint64_t capacity, directory, payloads, raw_bytes;
  uint32_t period;
  uint64_t head[2];  // the header's first 16 bytes as they must be, hashes on
  bool ragged;
  unsigned long long* status;
};

// Clear what must be clear and launch; the name of the error, or null.
template <Type kType>
const char* launch_encode(const EncodeArgs& args, device::StreamHandle stream);
template <Type kType>
const char* launch_decode(const DecodeArgs& args, device::StreamHandle stream);

}  // namespace zeroulp::codec::cuda
