#include "codec/format.h"

#include <xxhash.h>

#include <cstring>

namespace zeroulp::codec {
namespace {

template <class T>
void put(std::byte* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}
template <class T>
T get(const std::byte* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(static_cast<T>(from[i]) << (8 * i)));
  return value;
}

constexpr uint32_t kHashed = 40;  // bytes of the header that its hash covers

}  // namespace

std::string_view fault_text(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "no fault";
    case Fault::kTruncated: return "the frame is cut short";
    case Fault::kBadMagic: return "not a frame of this codec (it must begin with ZUPK)";
    case Fault::kBadVersion: return "made by another version of the format";
    case Fault::kHeader: return "the header contradicts itself";
    case Fault::kHeaderHash: return "the header is damaged (its hash differs)";
    case Fault::kTable: return "the exponent table is damaged";
    case Fault::kGeometry: return "another type or another number of blocks than expected";
    case Fault::kMode: return "a mode that does not exist for this type";
    case Fault::kCount: return "a number of values that does not fit the block";
    case Fault::kPlace: return "a payload that is not where it must be";
    case Fault::kSize: return "the payload's size does not fit its content";
    case Fault::kParameters: return "parameters outside their limits";
    case Fault::kEscapes: return "codes and the number of raw exponents disagree";
    case Fault::kSymbol: return "an exponent that this type does not have";
    case Fault::kPadding: return "padding is not zero";
    case Fault::kEntropy: return "entropy-coded data do not end as they must";
    case Fault::kBlockHash: return "the data are damaged (the block's hash differs)";
  }
  return "unknown fault";
}

void store_header(const Header& h, std::byte* to) {
  put<uint32_t>(to, kMagic);
  put<uint8_t>(to + 4, kVersion);
  put<uint8_t>(to + 5, static_cast<uint8_t>(h.type));
  put<uint16_t>(to + 6, h.flags);
  put<uint32_t>(to + 8, h.block_bytes);
  put<uint32_t>(to + 12, h.blocks);
  put<uint64_t>(to + 16, h.raw_bytes);
  put<uint64_t>(to + 24, h.payload_bytes);
  put<uint32_t>(to + 32, h.period);
  put<uint32_t>(to + 36, h.table_check);
  put<uint64_t>(to + kHashed, XXH3_64bits(to, kHashed));
}

Fault load_header(const std::byte* from, Header& h) {
  if (get<uint32_t>(from) != kMagic) return Fault::kBadMagic;
  if (get<uint8_t>(from + 4) != kVersion) return Fault::kBadVersion;
  if (get<uint64_t>(from + kHashed) != XXH3_64bits(from, kHashed)) return Fault::kHeaderHash;
  const uint8_t type = get<uint8_t>(from + 5);
  if (!type_is_known(type)) return Fault::kHeader;
  h.type = static_cast<Type>(type);
  h.flags = get<uint16_t>(from + 6);
  h.block_bytes = get<uint32_t>(from + 8);
  h.blocks = get<uint32_t>(from + 12);
  h.raw_bytes = get<uint64_t>(from + 16);
  h.payload_bytes = get<uint64_t>(from + 24);
  h.period = get<uint32_t>(from + 32);
  h.table_check = get<uint32_t>(from + 36);

  const TypeInfo& t = type_info(h.type);
  const uint32_t element = static_cast<uint32_t>(t.bytes);
  if ((h.flags & ~(kFlagHashes | kFlagRagged)) != 0) return Fault::kHeader;
  if (h.block_bytes == 0 || h.block_bytes % element != 0 || h.block_bytes / element > kBlockValuesLimit) return Fault::kHeader;
  if (h.raw_bytes % element != 0 || h.payload_bytes % kAlign != 0 || h.payload_bytes > kPayloadLimit) return Fault::kHeader;
  if (h.raw_bytes > uint64_t{h.block_bytes} * h.blocks) return Fault::kHeader;
  if ((h.flags & kFlagRagged) == 0 && h.blocks != h.raw_bytes / h.block_bytes + (h.raw_bytes % h.block_bytes != 0)) return Fault::kHeader;
  if (h.period > kPeriodLimit || (h.period == 0 && h.table_check != 0)) return Fault::kHeader;
  if (h.period != 0 && (t.exponent_bits == 0 || h.block_bytes / element % h.period != 0)) return Fault::kHeader;
  return Fault::kNone;
}

void store_entry(const Entry& e, std::byte* to) {
  put<uint32_t>(to, e.offset);
  put<uint16_t>(to + 4, static_cast<uint16_t>(e.size / kAlign));
  put<uint16_t>(to + 6, static_cast<uint16_t>(e.values - 1));
  put<uint16_t>(to + 8, static_cast<uint16_t>(e.escapes));
  put<uint8_t>(to + 10, static_cast<uint8_t>(static_cast<uint8_t>(e.mode) | e.shift << 4));
  put<uint8_t>(to + 11, e.base);
  put<uint64_t>(to + 12, e.hash);
}

Fault load_entry(const std::byte* from, Entry& e) {
  e.offset = get<uint32_t>(from);
  e.size = uint32_t{get<uint16_t>(from + 4)} * kAlign;
  e.values = uint32_t{get<uint16_t>(from + 6)} + 1;
  e.escapes = get<uint16_t>(from + 8);
  const uint8_t mode = get<uint8_t>(from + 10);
  e.base = get<uint8_t>(from + 11);
  e.hash = get<uint64_t>(from + 12);
  if ((mode & 15) >= kModes) return Fault::kMode;
  if ((mode & 128) != 0) return Fault::kParameters;
  e.mode = static_cast<Mode>(mode & 15);
  e.shift = static_cast<uint8_t>(mode >> 4);
  if (!has_windows(e.mode) && (e.base != 0 || e.shift != 0 || e.escapes != 0)) return Fault::kParameters;
  if (has_windows(e.mode) && e.shift > windows_of(e.mode).width2) return Fault::kParameters;
  return Fault::kNone;
}

}  // namespace zeroulp::codec
