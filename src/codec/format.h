// The codec's bitstream, version 1: constants, element types, modes, header and directory. docs/spec/codec.md is the same in words.
// Plain functions over integers, so that the CUDA kernels share them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#if defined(__CUDACC__)
#define ZU_HOST_DEVICE __host__ __device__
#else
#define ZU_HOST_DEVICE
#endif

namespace zeroulp::codec {

inline constexpr uint32_t kMagic = 0x4B50555Au;  // the bytes "ZUPK"
inline constexpr uint8_t kVersion = 1;
inline constexpr uint32_t kHeaderBytes = 48, kEntryBytes = 20, kAlign = 16;
inline constexpr uint32_t kBlockValuesLimit = 65536;
inline constexpr uint32_t kPeriodLimit = 65536;
inline constexpr uint64_t kPayloadLimit = (uint64_t{1} << 32) * kAlign;  // offsets count units of 16 bytes in 32 bits
inline constexpr uint16_t kFlagHashes = 1, kFlagRagged = 2;

// What an element is. kBytes serves every type that is not a float, and packed types.
enum class Type : uint8_t { kBF16 = 1, kF16 = 2, kF32 = 3, kF8E4M3 = 4, kF8E5M2 = 5, kBytes = 6 };

struct TypeInfo {
  Type type;
  std::string_view name;
  int bytes;          // per element
  int exponent_bits;  // 0: no windows, only RAW, CONST and RANS
};

inline constexpr TypeInfo kTypes[] = {
    {Type::kBF16, "BF16", 2, 8},    {Type::kF16, "F16", 2, 5},        {Type::kF32, "F32", 4, 8},
    {Type::kF8E4M3, "F8_E4M3", 1, 4}, {Type::kF8E5M2, "F8_E5M2", 1, 5}, {Type::kBytes, "BYTES", 1, 0},
};

constexpr bool type_is_known(uint8_t code) { return code >= 1 && code <= 6; }
constexpr const TypeInfo& type_info(Type type) { return kTypes[static_cast<uint8_t>(type) - 1]; }
constexpr int rest_bits(const TypeInfo& t) { return 8 * t.bytes - t.exponent_bits; }

// How a block is coded. The numbers are those of the directory.
enum class Mode : uint8_t { kRaw = 0, kConst = 1, kW4 = 2, kW3 = 3, kT22 = 4, kT23 = 5, kT33 = 6, kRans = 7 };
inline constexpr uint8_t kModes = 8;
inline constexpr std::string_view kModeNames[kModes] = {"RAW", "CONST", "W4", "W3", "T22", "T23", "T33", "RANS"};

// Exponents in the window [base + shift, base + shift + width1) have a code of bits1 bits; code width1 = 2^bits1 - 1 opens the second
// level: bits2 bits for the width2 exponents of [base, base + width1 + width2) outside that window; code width2 opens a raw byte.
// One level: bits2 = width2 = 0, and code width1 opens a raw byte.
struct Windows {
  int bits1, width1, bits2, width2;
};

ZU_HOST_DEVICE constexpr bool has_windows(Mode mode) { return mode >= Mode::kW4 && mode <= Mode::kT33; }
ZU_HOST_DEVICE constexpr Windows windows_of(Mode mode) {
  switch (mode) {
    case Mode::kW4: return {4, 15, 0, 0};
    case Mode::kW3: return {3, 7, 0, 0};
    case Mode::kT22: return {2, 3, 2, 3};
    case Mode::kT23: return {2, 3, 3, 7};
    case Mode::kT33: return {3, 7, 3, 7};
    default: return {0, 0, 0, 0};
  }
}

// What the encoder may choose from.
enum class Level : uint8_t {
  kFast = 0,      // RAW, CONST, W4
  kBalanced = 1,  // and W3, T22, T23, T33
  kRest = 2,      // and RANS, for data at rest
};
inline constexpr std::string_view kLevelNames[] = {"fast", "balanced", "rest"};

constexpr std::optional<Level> level_from_name(std::string_view name) {
  for (uint8_t i = 0; i < 3; ++i)
    if (kLevelNames[i] == name) return static_cast<Level>(i);
  return std::nullopt;
}

template <class T>
ZU_HOST_DEVICE constexpr T round_up16(T bytes) {
  return (bytes + 15) / 16 * 16;
}
// Bytes of a string of n codes of `bits` bits.
ZU_HOST_DEVICE constexpr uint32_t string_bytes(uint32_t n, int bits) {
  return static_cast<uint32_t>((static_cast<uint64_t>(n) * static_cast<uint32_t>(bits) + 7) / 8);
}
// Bytes of the rest planes: whole bytes first, then a string of the remaining bits.
constexpr uint32_t rest_bytes(const TypeInfo& t, uint32_t n) {
  return n * static_cast<uint32_t>(rest_bits(t) / 8) + string_bytes(n, rest_bits(t) % 8);
}

// Why a block or frame is refused. The numbers are stable: CUDA reports them in its status word.
enum class Fault : uint32_t {
  kNone = 0,
  kTruncated = 10,   // the frame is shorter than its header or directory says
  kBadMagic = 11,
  kBadVersion = 12,
  kHeader = 13,      // a field outside its limits, or fields that contradict each other
  kHeaderHash = 14,
  kTable = 15,       // the table's check or padding
  kGeometry = 16,    // not the type, block size or number of blocks that the caller expects
  kMode = 20,        // unknown mode, or one that this type or decoder does not have
  kCount = 21,       // more values than the block holds, or fewer where none may be missing
  kPlace = 22,       // the payload does not begin where the one before ends, or ends outside the frame
  kSize = 23,        // size and content disagree
  kParameters = 24,  // base, shift or reserved bits
  kEscapes = 25,     // the codes open another number of raw exponents than the directory says
  kSymbol = 26,      // a raw exponent that the type does not have
  kPadding = 27,     // padding that is not zero
  kEntropy = 28,     // table, words or final states of RANS
  kBlockHash = 30,
};
std::string_view fault_text(Fault fault);

// An entry of the directory.
struct Entry {
  uint32_t offset = 0;   // of the payload, in bytes / 16, from the first payload
  uint32_t size = 0;     // of the payload, in bytes; a multiple of 16
  uint32_t values = 0;   // 1 to 65536
  uint32_t escapes = 0;  // raw exponents
  Mode mode = Mode::kRaw;
  uint8_t base = 0, shift = 0;
  uint64_t hash = 0;     // XXH3-64 (seed 0) of the block's raw bytes
};

struct Header {
  Type type = Type::kBytes;
  uint16_t flags = 0;
  uint32_t block_bytes = 0;  // raw bytes of a full block
  uint32_t blocks = 0;
  uint64_t raw_bytes = 0;
  uint64_t payload_bytes = 0;
  uint32_t period = 0;       // entries of the table, 0: none
  uint32_t table_check = 0;  // low half of XXH3-64 of the table
};

constexpr uint64_t directory_offset(uint32_t period) { return kHeaderBytes + round_up16(uint64_t{period}); }
constexpr uint64_t payload_offset(uint32_t period, uint32_t blocks) {
  return directory_offset(period) + round_up16(uint64_t{kEntryBytes} * blocks);
}

void store_header(const Header& header, std::byte* to);  // 48 bytes, hash included
Fault load_header(const std::byte* from, Header& header);  // checks everything that the header alone can tell
void store_entry(const Entry& entry, std::byte* to);
Fault load_entry(const std::byte* from, Entry& entry);  // checks what the entry alone can tell

}  // namespace zeroulp::codec
