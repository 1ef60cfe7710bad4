// A frame: header, exponent table, directory, payloads. What is sent or stored as one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "codec/block.h"
#include "codec/format.h"
#include "codec/kernels.h"

namespace zeroulp::codec {

struct FrameOptions {
  Type type = Type::kBytes;
  uint32_t block_bytes = 16384;  // a multiple of the element; at most 65,536 elements
  Level level = Level::kBalanced;
  bool hashes = true;
  std::span<const uint8_t> table;  // see Coding; its size divides the elements of a block
};

// So many bytes of a type.
struct TypedRun {
  Type type = Type::kBytes;
  uint64_t bytes = 0;
};

// Where blocks lie in memory: block i at base + (page ? page[i] : i) * stride, with valid[i] values, or full ones if `valid` is empty.
template <class Byte>
struct Pages {
  Byte* base = nullptr;
  uint64_t stride = 0;              // bytes
  std::span<const uint32_t> page;   // empty: in order
  std::span<const uint32_t> valid;  // values per block
};
using ConstPages = Pages<const std::byte>;
using MutablePages = Pages<std::byte>;

// Refuses options that the format cannot hold, in one line.
Status check_options(const FrameOptions& options);

// The most that a frame of `blocks` blocks with `raw_bytes` bytes can take: header, table and directory, and every payload raw.
// For full blocks of a multiple of 16 bytes at most raw_bytes + 64 + 20 * blocks, and the table. `ragged`: any block may be short.
uint64_t frame_bound(const FrameOptions& options, uint64_t raw_bytes, uint32_t blocks, bool ragged = false);
uint64_t blocks_of(const FrameOptions& options, uint64_t raw_bytes);
// The header of such a frame, payload_bytes still 0.
Header header_of(const FrameOptions& options, uint64_t raw_bytes, uint32_t blocks, bool ragged);

// Codes a tensor of raw.size() bytes. `to` has frame_bound() bytes; returns how many are used. The bytes are the same for any number of
// threads (`pool` may be null) and for any kernels.
Result<uint64_t> encode_frame(const Kernels& kernels, const FrameOptions& options, std::span<const std::byte> raw, std::span<std::byte> to,
                              ThreadPool* pool = nullptr);
// Codes `blocks` blocks gathered from pages; with `valid`, blocks may be short.
Result<uint64_t> encode_pages(const Kernels& kernels, const FrameOptions& options, const ConstPages& pages, uint32_t blocks,
                              std::span<std::byte> to, ThreadPool* pool = nullptr);

// A frame whose header, table and directory have been checked: every payload lies inside, in order, and no field is outside its limits.
// Payloads are checked when they are decoded. Does not own the bytes.
class Frame {
 public:
  // `name` opens the error line. Bytes behind the frame's end are an error.
  static Result<Frame> open(std::span<const std::byte> bytes, std::string_view name);
  // The same as a number, for callers without text; `at` is the block that is at fault.
  static Fault parse(std::span<const std::byte> bytes, Frame& frame, uint32_t& at);

  const Header& header() const { return header_; }
  const std::vector<Entry>& entries() const { return entries_; }
  Coding coding() const { return {header_.type, table_}; }
  uint32_t block_values() const { return header_.block_bytes / static_cast<uint32_t>(type_info(header_.type).bytes); }

  // One block, to a place of its values' bytes. Checks the hash where the frame has hashes.
  Fault decode(const Kernels& kernels, uint32_t block, std::byte* raw, Scratch& scratch) const;

 private:
  Header header_;
  std::span<const uint8_t> table_;
  std::span<const std::byte> payloads_;
  std::vector<Entry> entries_;
};

// The whole tensor; `raw` has header().raw_bytes bytes, and the frame is not ragged. After an error the content of `raw` is undefined.
Status decode_frame(const Kernels& kernels, const Frame& frame, std::span<std::byte> raw, std::string_view name, ThreadPool* pool = nullptr);
// Scatters blocks to pages; pages.valid is ignored, the frame says how many values each block has. Pages must be distinct and below
// `page_count`; blocks beyond pages.page are refused.
Status decode_pages(const Kernels& kernels, const Frame& frame, const MutablePages& pages, uint32_t page_count, std::string_view name,
                    ThreadPool* pool = nullptr);

// The exponent table for a tensor of rows of `period` values: per channel the median exponent of up to 4096 rows spread over the tensor,
// moved so that it becomes the middle of the range.
std::vector<uint8_t> calibrate_table(Type type, std::span<const std::byte> raw, uint32_t period);

}  // namespace zeroulp::codec
