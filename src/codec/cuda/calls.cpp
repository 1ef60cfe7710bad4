#include <fmt/format.h>

#include <cstring>

#include "codec/cuda/args.h"
#include "codec/cuda/cuda.h"

namespace zeroulp::codec::cuda {

namespace {

Status check_call(const FrameOptions& options, const void* base, uint64_t stride, const void* frame) {
  ZU_TRY(check_options(options));
  const auto aligned = [](const void* p) { return reinterpret_cast<uint64_t>(p) % kAlign == 0; };
  if (!aligned(base) || !aligned(frame) || stride % kAlign != 0 || options.block_bytes % kAlign != 0)
    return usage_error("codec: on the GPU frames, pages, strides and block sizes must be multiples of 16 bytes");
  if (stride < options.block_bytes) return usage_error(fmt::format("codec: pages of {} bytes are smaller than blocks of {}", stride, options.block_bytes));
  if (options.block_bytes > 65536) return usage_error("codec: on the GPU a block has at most 65,536 bytes");
  return {};
}

// The kernels of a type.
struct Launches {
  const char* (*encode)(const EncodeArgs&, device::StreamHandle);
  const char* (*decode)(const DecodeArgs&, device::StreamHandle);
};
Launches launches_of(Type type) {
  switch (type) {
    case Type::kBF16: return {launch_encode<Type::kBF16>, launch_decode<Type::kBF16>};
    case Type::kF16: return {launch_encode<Type::kF16>, launch_decode<Type::kF16>};
    case Type::kF32: return {launch_encode<Type::kF32>, launch_decode<Type::kF32>};
    case Type::kF8E4M3: return {launch_encode<Type::kF8E4M3>, launch_decode<Type::kF8E4M3>};
    case Type::kF8E5M2: return {launch_encode<Type::kF8E5M2>, launch_decode<Type::kF8E5M2>};
    case Type::kBytes: break;
  }
  return {launch_encode<Type::kBytes>, launch_decode<Type::kBytes>};
}

void frame_head(const FrameOptions& options, uint64_t raw_bytes, uint32_t blocks, bool ragged, uint64_t head[5]) {
  std::byte bytes[kHeaderBytes];
  store_header(header_of(options, raw_bytes, blocks, ragged), bytes);
  std::memcpy(head, bytes, 40);
}

}  // namespace

DecodeStatus decode_status(uint64_t word) {
  if (word == 0) return {};
  return {static_cast<Fault>(word & UINT32_MAX), ~static_cast<uint32_t>(word >> 32)};
}

uint64_t encode_workspace_bytes(uint32_t blocks) { return sizeof(unsigned long long) * (uint64_t{blocks} + 1); }

Status encode(const EncodeCall& c, device::StreamHandle stream) {
  FrameOptions options = c.options;
  ZU_TRY(check_call(options, c.base, c.stride, c.frame));
  if (c.options.level == Level::kRest) return usage_error("codec: level rest is coded on the CPU");
  if (c.raw_bytes % static_cast<uint32_t>(type_info(options.type).bytes) != 0)
    return usage_error(fmt::format("codec: {} bytes are no whole number of {} elements", c.raw_bytes, type_info(options.type).name));
  if (c.frame_capacity < frame_bound(options, c.raw_bytes, c.blocks, c.valid != nullptr)) return usage_error("codec: the frame needs frame_bound() bytes");
  if (c.valid == nullptr && blocks_of(options, c.raw_bytes) != c.blocks) return usage_error("codec: raw_bytes and the number of blocks disagree");

  const uint32_t element = static_cast<uint32_t>(type_info(options.type).bytes);
  EncodeArgs a{};
  a.from = {reinterpret_cast<uint64_t>(c.base), c.stride, c.page, c.blocks, options.block_bytes / element};
  a.valid = c.valid;
  a.last_values = static_cast<uint32_t>((c.raw_bytes - (c.blocks == 0 ? 0 : uint64_t{c.blocks - 1} * options.block_bytes)) / element);
  a.table = c.table;
  a.period = static_cast<uint32_t>(options.table.size());
  a.frame = c.frame;
  a.directory = directory_offset(a.period);
  a.payloads = payload_offset(a.period, c.blocks);
  a.places = reinterpret_cast<unsigned long long*>(c.workspace);
  a.frame_bytes = c.frame_bytes;
  a.hashes = options.hashes;
  a.balanced = options.level == Level::kBalanced;
  frame_head(options, c.raw_bytes, c.blocks, c.valid != nullptr, a.head);
  if (const char* error = launches_of(options.type).encode(a, stream)) return unavailable(fmt::format("GPU: codec: encode: {}", error));
  return {};
}

Status decode(const DecodeCall& c, device::StreamHandle stream) {
  FrameOptions options;
  options.type = c.type;
  options.block_bytes = c.block_bytes;
  ZU_TRY(check_call(options, c.base, c.stride, c.frame));
  if (!c.ragged && blocks_of(options, c.raw_bytes) != c.blocks) return usage_error("codec: raw_bytes and the number of blocks disagree");
  const TypeInfo& t = type_info(c.type);
  const uint32_t element = static_cast<uint32_t>(t.bytes);
  if (c.raw_bytes % element != 0) return usage_error(fmt::format("codec: {} bytes are no whole number of {} elements", c.raw_bytes, t.name));
  if (c.period > kPeriodLimit || (c.period != 0 && (t.exponent_bits == 0 || c.block_bytes / element % c.period != 0))) return usage_error("codec: a table must divide the values of a block");
  if (c.frame_capacity < kHeaderBytes || c.status == nullptr) return usage_error("codec: no room for a frame, or no status word");

  DecodeArgs a{};
  a.to = {reinterpret_cast<uint64_t>(c.base), c.stride, c.page, c.blocks, c.block_bytes / element};
  a.page_count = c.page == nullptr ? c.blocks : c.page_count;
  a.frame = c.frame;
  a.capacity = c.frame_capacity;
  a.directory = directory_offset(c.period);
  a.payloads = payload_offset(c.period, c.blocks);
  a.raw_bytes = c.raw_bytes;
  a.period = c.period;
  uint64_t head[5];
  options.hashes = true;
  frame_head(options, c.raw_bytes, c.blocks, c.ragged, head);
  a.head[0] = head[0];
  a.head[1] = head[1];
  a.ragged = c.ragged;
  a.status = reinterpret_cast<unsigned long long*>(c.status);
  if (const char* error = launches_of(c.type).decode(a, stream)) return unavailable(fmt::format("GPU: codec: decode: {}", error));
  return {};
}

}  // namespace zeroulp::codec::cuda
