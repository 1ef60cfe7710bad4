#include <algorithm>

#include "codec/frame.h"
#include "zeroulp.h"

namespace {

using namespace zeroulp;
using namespace zeroulp::codec;

static_assert(ZU_BF16 == static_cast<int>(Type::kBF16) && ZU_BYTES == static_cast<int>(Type::kBytes) && ZU_LEVEL_REST == static_cast<int>(Level::kRest));

const Kernels& kernels() {
  static const Kernels* const fastest = [] {
    auto chosen = select_kernels("", cpu_features());
    return chosen ? *chosen : &kReference;
  }();
  return *fastest;
}

bool read(const zu_codec_options* from, FrameOptions& to) {
  if (from == nullptr || from->type < ZU_BF16 || from->type > ZU_BYTES || from->level < 0 || from->level > ZU_LEVEL_REST) return false;
  if (from->channels != 0 && from->table == nullptr) return false;
  to.type = static_cast<Type>(from->type);
  to.level = static_cast<Level>(from->level);
  if (from->block_bytes != 0) to.block_bytes = from->block_bytes;
  to.table = {from->table, from->channels};
  return check_options(to).has_value();
}

}  // namespace

int zu_codec_bound(const zu_codec_options* options, uint64_t raw_bytes, uint64_t* bound) {
  FrameOptions o;
  if (!read(options, o) || blocks_of(o, raw_bytes) > UINT32_MAX) return ZU_CODEC_OPTIONS;
  *bound = frame_bound(o, raw_bytes, static_cast<uint32_t>(blocks_of(o, raw_bytes)));
  return ZU_CODEC_OK;
}

int zu_codec_encode(const zu_codec_options* options, const void* raw, uint64_t raw_bytes, void* to, uint64_t capacity, uint64_t* used) {
  uint64_t bound = 0;
  if (const int error = zu_codec_bound(options, raw_bytes, &bound); error != ZU_CODEC_OK) return error;
  if (capacity < bound) return ZU_CODEC_ROOM;
  FrameOptions o;
  read(options, o);
  const auto coded = encode_frame(kernels(), o, {static_cast<const std::byte*>(raw), raw_bytes}, {static_cast<std::byte*>(to), capacity});
  if (!coded) return ZU_CODEC_OPTIONS;
  *used = *coded;
  return ZU_CODEC_OK;
}

int zu_codec_inspect(const void* frame, uint64_t bytes, int* type, uint64_t* raw_bytes, uint32_t* blocks) {
  Frame f;
  uint32_t at = 0;
  if (const Fault fault = Frame::parse({static_cast<const std::byte*>(frame), bytes}, f, at); fault != Fault::kNone) return static_cast<int>(fault);
  *type = static_cast<int>(f.header().type);
  *raw_bytes = f.header().raw_bytes;
  *blocks = f.header().blocks;
  return ZU_CODEC_OK;
}

int zu_codec_decode(const void* frame, uint64_t bytes, void* raw, uint64_t raw_bytes) {
  Frame f;
  uint32_t at = 0;
  if (const Fault fault = Frame::parse({static_cast<const std::byte*>(frame), bytes}, f, at); fault != Fault::kNone) return static_cast<int>(fault);
  if ((f.header().flags & kFlagRagged) != 0) return ZU_CODEC_RAGGED;
  if (f.header().raw_bytes != raw_bytes) return ZU_CODEC_ROOM;
  Scratch scratch(f.block_values());
  for (uint32_t b = 0; b < f.header().blocks; ++b) {
    std::byte* to = static_cast<std::byte*>(raw) + uint64_t{b} * f.header().block_bytes;
    if (const Fault fault = f.decode(kernels(), b, to, scratch); fault != Fault::kNone) return static_cast<int>(fault);
  }
  return ZU_CODEC_OK;
}

const char* zu_codec_error(int number) {
  switch (number) {
    case ZU_CODEC_OPTIONS: return "options outside what the format can hold";
    case ZU_CODEC_ROOM: return "the buffer has another size than is needed";
    case ZU_CODEC_RAGGED: return "a frame of pages with short blocks is no tensor";
    default: return fault_text(static_cast<Fault>(std::max(number, 0))).data();
  }
}
